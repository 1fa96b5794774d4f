"""A stand-in for the records service, and the made-up institution behind it. For trying, testing and measuring.

It serves the contract in full and nothing beside it; it knows nothing of Rollbook, and Rollbook nothing of it. It
never misbehaves: faults belong to the tests, which have servers for that.

    records.py      rows as the contract's records: adding a field is a line here
    institution.py  a day of the institution: pupils, work and classes joined into rows
    pupils.py       who is listed, under which name, in which classes; what is left unsaid
    work.py         what they have done
    timetable.py    classes, courses, teachers
    names.py        what everybody is called
    clock.py        school days, weekends, moments
    chance.py       every draw: a function of seed, stream, key and turn
    catalogue.py    a day encoded, filtered, searched, cut into pages
    service.py      the endpoints
    server.py       where they run

**The institution lives.** On a school day about 2 to 3 % of the students change in something other than
`days_since_last_activity`, at weekends less than 1 %; 0.2 to 0.3 % are no longer listed, and as many are new or back;
others change their names or move to another class; classes close, stay listed as inactive for three weeks, disappear;
successors open; a teacher changes here and there; and what the contract says "may be absent" goes unsaid for a few
students for a while. Events are spaced evenly rather than left to luck, so that every fortnight of a school of 500 has
some of each, and no night of a school of 50 or more looks like a landslide (in a smaller one, a leaver or two are a
tenth of the roster). The same seed, size, opening and day give the same records, whatever was asked before.

**What the contract leaves open, and what is done here:**

- Every refusal has the contract's error body. The key is checked before anything else, unknown paths included: 401
  AUTH_REQUIRED, also when the header is sent twice.
- `page` or `limit` out of range, `status` other than 0 or 1, and any integer parameter that is empty or not plain
  digits with an optional minus sign (at most 18 digits): 400 INVALID_PARAMETER, and the message names the parameter.
- An id in a filter that nobody has: 200 and an empty list. An unknown parameter is ignored; of a repeated one the
  last counts; an empty `search` does not filter, an empty `teacher_email` matches nobody.
- A page past the end: 200, an empty list, `has_next` false, `has_prev` true if there are any pages. Of an empty list
  `total_pages` is 0.
- Lists are in ascending order of id. Filters all apply together.
- `search` finds its text anywhere in one of the fields, whatever the case; `teacher_email` must match whole, whatever
  the case. Texts are compared as they stand, without Unicode normalisation.
- `class_id` and `course_id` filter students by true enrolment, also where a record leaves `classes` unsaid. Only
  active classes have students; the others have `student_count` 0, and keep their last summary.
- `/student/<id>`: an envelope whose `data` is the list's record with `courses` (course_id, course_name), `classes`
  (whole class records) and `assignments` (assignment_id, title, class_id, is_completed, score) of the current unit.
  An unknown id, one of a student who is not listed: 404 STUDENT_NOT_FOUND; one that is no integer: 400.
- The single-class operation, whose path is not shown, is not served. Unknown paths, with a trailing slash too: 404
  NOT_FOUND. Methods other than GET: 405 METHOD_NOT_ALLOWED with an Allow header; HEAD is answered as HTTP has it.
- The institution table of the auth check names a field `{base_url}` where it plainly means `school.id`: served as that.
- The auth check's `timestamp`: the date is the day being played, the time is now, in UTC. Without a day, the day
  being played is today in UTC.
- A summary's assignments are those of the unit the student is in; submitted and missing ones are counted over all.
  `average_score` is null until something in the unit is scored. Who has never logged in has null dates and null
  `days_since_last_activity` in `activity_tracking`, and no `last_activity_date` in the summary.
- A class's `average_score` is 0 when nobody in it has one. Its summary is worked out once a week, on a weekday of its
  own; the counts beside it are of the day. Without assignments, the first and last date are null.
"""

from pipelines.sandbox.institution import Day, Institution
from pipelines.sandbox.server import DEFAULT_KEY, DEFAULT_PORT, Sandbox, serve
from pipelines.sandbox.service import DEFAULT_SCHOOL, School, make_app

__all__ = [
    "DEFAULT_KEY",
    "DEFAULT_PORT",
    "DEFAULT_SCHOOL",
    "Day",
    "Institution",
    "Sandbox",
    "School",
    "make_app",
    "serve",
]
