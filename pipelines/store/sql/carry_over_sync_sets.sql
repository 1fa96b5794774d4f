-- Records received per set, from former columns of ops.syncs: for landings whose raw bodies have expired.
INSERT INTO ops.sync_sets BY NAME
SELECT snapshot_date, landing, 'students' AS set_name, students AS received, students AS records, proven FROM ops.syncs_was
UNION ALL
SELECT snapshot_date, landing, 'classes' AS set_name, classes AS received, classes AS records, proven FROM ops.syncs_was
