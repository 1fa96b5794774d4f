-- courses.csv of OneRoster 1.2: the courses of all classes.
{% import "_oneroster.sql" as o with context %}
SELECT
    {{ o.course() }} AS "sourcedId", {{ o.state("BOOL_AND(gone)", "MAX(modified)") }}, '' AS "schoolYearSourcedId",
    COALESCE({{ o.newest_of("course_name") }}, 'Without a course') AS title, '' AS "courseCode", '' AS grades,
    {{ o.school() }} AS "orgSourcedId", '' AS subjects, '' AS "subjectCodes"
FROM {{ o.courses() }}
GROUP BY course_id
HAVING {{ o.wanted("BOOL_AND(gone)", "MAX(modified)") }}
ORDER BY course_id
