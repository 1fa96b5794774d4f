-- roster: One row per class and student in it, with the names of both, the teacher and the course.
-- key: class_id, student_id
-- order: class_title, class_id, name, student_id
--
-- A class that is not listed has the title that its students' records give it, and no teacher.
--
--   class_title      Class name.
--   name             The student's full name.
--   teacher_name     The primary teacher's name.
--   student_id       The student's id at the records service.
--   class_id         The class's id at the records service.
--   course_name      The course's name.
--   class_code       Class code or section identifier.
--   is_class_active  Whether the class is active; NULL when it is not listed, or does not say.
--   first_name       The student's first name.
--   last_name        The student's last name.
--   email            The student's email address.
--   reference_id     The institution's own student id.
--   course_id        The course's id.
--   teacher_id       The primary teacher's id.
--   teacher_email    The primary teacher's email address.
SELECT
    COALESCE(c.class_title, e.class_title) AS class_title,
    s.name,
    c.teacher_name,
    e.student_id,
    e.class_id,
    COALESCE(c.course_name, e.course_name) AS course_name,
    c.class_code,
    c.class_status = 1 AS is_class_active,
    s.first_name,
    s.last_name,
    s.email,
    s.reference_id,
    c.course_id,
    c.teacher_id,
    c.teacher_email
FROM main.student_classes AS e
INNER JOIN main.students AS s USING (student_id)
LEFT JOIN main.classes AS c USING (class_id)
