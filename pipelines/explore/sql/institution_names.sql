-- Explore: the institutions that can be chosen.
SELECT institution FROM main.institutions ORDER BY institution
