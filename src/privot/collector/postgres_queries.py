"""What the store in PostgreSQL asks of its database: tables, and the statements of its transactions."""

TABLES = """
CREATE TABLE IF NOT EXISTS privot_campaigns (
    number integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    fingerprint bytea UNIQUE NOT NULL,
    record_bytes integer NOT NULL
);
CREATE TABLE IF NOT EXISTS privot_reports (
    campaign integer NOT NULL REFERENCES privot_campaigns,
    id uuid NOT NULL,
    digest bigint NOT NULL,
    sealing integer,
    report bytea NOT NULL,
    PRIMARY KEY (campaign, id)
);
CREATE INDEX IF NOT EXISTS privot_unsealed ON privot_reports (campaign) WHERE sealing IS NULL;
CREATE TABLE IF NOT EXISTS privot_sealings (
    campaign integer NOT NULL REFERENCES privot_campaigns,
    number integer NOT NULL,
    shards integer[],
    PRIMARY KEY (campaign, number)
);
"""
ARRIVING = """
CREATE TEMPORARY TABLE IF NOT EXISTS privot_arriving
    (place integer, id uuid, digest bigint, report bytea) ON COMMIT DELETE ROWS
"""
INSERT = """
WITH stored AS (
    INSERT INTO privot_reports (campaign, id, digest, report)
    SELECT %s, id, digest, report FROM (
        SELECT DISTINCT ON (id) id, digest, report FROM privot_arriving ORDER BY id, place
    ) AS firsts ORDER BY id
    ON CONFLICT DO NOTHING RETURNING id
)
SELECT place FROM (
    SELECT id, min(place) AS place FROM privot_arriving GROUP BY id
) AS firsts JOIN stored USING (id)
"""
SAME = """
SELECT place, CASE WHEN held.digest = 0 THEN %s WHEN held.digest = arriving.digest THEN %s ELSE %s END
FROM privot_arriving AS arriving JOIN privot_reports AS held USING (id) WHERE held.campaign = %s
"""
KNOWN = "SELECT id FROM privot_reports WHERE campaign = %s AND id = ANY(%s) FOR UPDATE"
DELETE = """
UPDATE privot_reports SET digest = 0, report = '', sealing = coalesce(sealing, -1)
WHERE campaign = %s AND digest <> 0 AND (%s OR id = ANY(%s::uuid[]))
"""
TO_ERASE = "SELECT id FROM privot_reports WHERE campaign = %s AND digest = 0 AND sealing >= 0"
