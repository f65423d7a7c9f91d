"""The outcomes of runs, summed over all observers that exist.

A reader of everything needs the sum for each candidate of a recall, and a fact that 10,000 cells
used has 10,000 rows to sum. Triggers keep the sums, because uses are counted, merged and erased in
many places, and those of a scope do not count while it is retired. They cover no `UPDATE` of the
numbers and kinds of uses and no `INSERT OR REPLACE`, which nothing does. A migration that recreates
one of these tables must recreate its triggers.
"""

from __future__ import annotations

from string import Template

_TOTALS = Template("""
CREATE TABLE $total($number INTEGER NOT NULL, kind TEXT NOT NULL, count INTEGER NOT NULL,
  PRIMARY KEY($number, kind)) WITHOUT ROWID, STRICT;
INSERT INTO $total($number, kind, count)
  SELECT u.$number, u.kind, sum(u.count) FROM $usage u JOIN scope s ON s.scope_no = u.observer_no
  WHERE u.kind IN ('succeeded', 'failed') AND s.retired_at IS NULL GROUP BY u.$number, u.kind;
CREATE TRIGGER ${total}_zero AFTER UPDATE OF count ON $total WHEN NEW.count = 0 BEGIN
  DELETE FROM $total WHERE $number = NEW.$number AND kind = NEW.kind;
END;

CREATE TRIGGER ${usage}_insert AFTER INSERT ON $usage
WHEN NEW.kind IN ('succeeded', 'failed') BEGIN
  INSERT INTO $total($number, kind, count) SELECT NEW.$number, NEW.kind, NEW.count
    FROM scope WHERE scope_no = NEW.observer_no AND retired_at IS NULL
    ON CONFLICT DO UPDATE SET count = count + excluded.count;
END;
CREATE TRIGGER ${usage}_update AFTER UPDATE OF count ON $usage
WHEN NEW.kind IN ('succeeded', 'failed') BEGIN
  INSERT INTO $total($number, kind, count) SELECT NEW.$number, NEW.kind, NEW.count - OLD.count
    FROM scope WHERE scope_no = NEW.observer_no AND retired_at IS NULL
    ON CONFLICT DO UPDATE SET count = count + excluded.count;
END;
CREATE TRIGGER ${usage}_delete AFTER DELETE ON $usage
WHEN OLD.kind IN ('succeeded', 'failed') BEGIN
  INSERT INTO $total($number, kind, count) SELECT OLD.$number, OLD.kind, -OLD.count
    FROM scope WHERE scope_no = OLD.observer_no AND retired_at IS NULL
    ON CONFLICT DO UPDATE SET count = count + excluded.count;
END;

CREATE TRIGGER ${usage}_of_new_scope AFTER INSERT ON scope WHEN NEW.retired_at IS NULL BEGIN
  INSERT INTO $total($number, kind, count) SELECT $number, kind, count FROM $usage
    WHERE observer_no = NEW.scope_no AND kind IN ('succeeded', 'failed')
    ON CONFLICT DO UPDATE SET count = count + excluded.count;
END;
CREATE TRIGGER ${usage}_of_deleted_scope AFTER DELETE ON scope WHEN OLD.retired_at IS NULL BEGIN
  INSERT INTO $total($number, kind, count) SELECT $number, kind, -count FROM $usage
    WHERE observer_no = OLD.scope_no AND kind IN ('succeeded', 'failed')
    ON CONFLICT DO UPDATE SET count = count + excluded.count;
END;
CREATE TRIGGER ${usage}_of_retired_scope AFTER UPDATE OF retired_at ON scope
WHEN OLD.retired_at IS NULL AND NEW.retired_at IS NOT NULL BEGIN
  INSERT INTO $total($number, kind, count) SELECT $number, kind, -count FROM $usage
    WHERE observer_no = NEW.scope_no AND kind IN ('succeeded', 'failed')
    ON CONFLICT DO UPDATE SET count = count + excluded.count;
END;
CREATE TRIGGER ${usage}_of_adopted_scope AFTER UPDATE OF retired_at ON scope
WHEN OLD.retired_at IS NOT NULL AND NEW.retired_at IS NULL BEGIN
  INSERT INTO $total($number, kind, count) SELECT $number, kind, count FROM $usage
    WHERE observer_no = NEW.scope_no AND kind IN ('succeeded', 'failed')
    ON CONFLICT DO UPDATE SET count = count + excluded.count;
END;
""")

SQLITE = f"""
CREATE INDEX scope_usage_seen ON scope_usage(observer_no, scope_no, kind, count)
  WHERE kind IN ('succeeded', 'failed');
{_TOTALS.substitute(usage="usage", number="fact_no", total="fact_outcome")}
{_TOTALS.substitute(usage="scope_usage", number="scope_no", total="scope_outcome")}
"""
