"""A stand-in for the records service, with a made-up institution behind. For trying, testing and measuring.

    service.py      the contract's endpoints over lists of records
    institution.py  a day of the institution: calendar, pupils, classes and work as the contract's records
    odd.py          what many real services do besides the contract (`rollbook sandbox --odd`)
    app.py          the service over HTTP, as a Starlette application on loopback

**The institution is a real school's year.** On a day of lessons nearly everybody works, so that most summaries change
overnight; at a weekend a tenth, in the holidays nobody (`institution.py` has the terms). A fifth of the pupils leave in
July; in August everybody is promoted into new classes, and new pupils join. Both nights are held, as they should be: a
person looks. Last year's classes stay listed as inactive for three weeks and then disappear together.

Between, 0.2 to 0.3 % of the pupils are no longer listed, and as many are new or back. Some pupils change their names,
move to another class, or get another id; some get the id of a pupil who left. A teacher changes now and then, and an
elective opens as another closes. One pupil in eight would be watched: some struggle, some fall, some stay away, a few
never logged in. The best have extra credit, with scores above 100, and every night each picture's address has another
signature. Fields that "may be absent" by the contract are omitted for a few students for a while. Events are spaced
evenly instead of randomly, so that every fortnight of a school of 500 has some of each, and no other night of a school
of 50 or more is a mass change (in a smaller school, a leaver or two are a tenth of the roster). The same seed, size,
opening and day always give the same records, in any order of requested days.

**What the contract leaves open, and what the sandbox does:**

- Every refusal has the contract's error body. The key is checked before anything else, unknown paths included: 401
  AUTH_REQUIRED.
- `page` or `limit` out of range, `status` other than 0 or 1, and any integer parameter that is empty or not plain
  digits with an optional minus sign (at most 18 digits): 400 INVALID_PARAMETER, and the message names the parameter.
- An unknown id in a filter: 200 and an empty list. An unknown parameter is ignored; of a repeated parameter, the last
  counts; an empty `search` does not filter, an empty `teacher_email` matches nobody.
- A page past the end: 200, an empty list, `has_next` false, `has_prev` true if there are any pages. An empty list has
  `total_pages` 0.
- Lists are in ascending order of id. Filters are combined with AND.
- `search` finds a text anywhere in the fields; `teacher_email` must match the whole address. Both ignore case.
  Texts are compared without Unicode normalisation.
- `class_id` and `course_id` filter students by the classes in their records. Only active classes have students; closed
  classes have `student_count` 0.
- `/student/<id>`: an envelope whose `data` is the list's record with `classes` (whole class records), `courses` and
  `assignments` (an empty list). The id of no listed student: 404 STUDENT_NOT_FOUND; an id that is not an integer: 400.
- The single-class operation, whose path is not shown, is not served. Unknown paths, with a trailing slash too: 404
  NOT_FOUND. Methods other than GET: 405 METHOD_NOT_ALLOWED.
- The institution table of the auth check names a field `{base_url}` but clearly means `school.id`: served as that.
- The auth check's `timestamp`: the date is the day being played, the time is now, in UTC. Without a day, the sandbox
  plays today in UTC.
- The contract does not say over which time a student's counts run. Here the assignments and assessments, submitted and
  missing ones too, are the school year's, and begin again in the last week of August, at the student's first visit, and
  within a year nothing that was completed vanishes. Only so do a year's figures make sense: over a whole stay the
  figures would hardly move, and by units of work everybody would fall to nothing every few weeks. Learning time is the
  whole stay's. `average_score` is null until something was completed in the year. A student who has never logged in has
  null dates and null `days_since_last_activity` in `activity_tracking`, and no `last_activity_date` in the summary.
- A class's `average_score` is 0 if nobody there has a score. The summary is computed once a week, on a weekday of the
  class's own; its other counts are the day's. A closed class's summary goes on with the pupils while the class is
  listed. Without assignments, the first and last date are null.
"""

from rollbook.sandbox.app import Sandbox, serve
from rollbook.sandbox.institution import Day, MadeUpInstitution
from rollbook.sandbox.odd import Odd
from rollbook.sandbox.service import DEFAULT_KEY, ReceivedRequest, Reply, Service, error_reply, school_of

__all__ = [
    "DEFAULT_KEY",
    "Day",
    "MadeUpInstitution",
    "Odd",
    "ReceivedRequest",
    "Reply",
    "Sandbox",
    "Service",
    "error_reply",
    "school_of",
    "serve",
]
