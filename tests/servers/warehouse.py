"""A warehouse to ask about: 30 tables and two views of a freight company, described, keyed and filled.

`fill_postgres` makes all of it, with 100,000 rows in `shipments`; `fill_sqlite` and `fill_duckdb` make the
smaller twin: the six tables that are asked about most, a few thousand rows, the same formulas. Nothing is
random, so sums can be expected.
"""

import sqlite3
from pathlib import Path

import duckdb
import psycopg

SHIPMENTS = 100_000
TWIN_SHIPMENTS = 5_000

# The dimensions: name, what it is, how many rows.
_SMALL = (
    ("countries", "Countries we deliver to", 40),
    ("currencies", "Currencies of invoices", 12),
    ("warehouses", "Buildings where goods lie", 15),
    ("vehicle_types", "Kinds of vehicles", 8),
    ("service_levels", "How fast a shipment is to be", 5),
    ("cargo_types", "What is carried", 20),
    ("claim_reasons", "Why customers complain", 15),
    ("tax_codes", "Taxes on freight", 10),
    ("payment_terms", "When an invoice is due", 6),
    ("holidays", "Days without deliveries", 60),
)
# Tables that hang on one or two others: name, what it is, parents, rows.
_LARGER = (
    ("cities", "Towns with their country", ("countries",), 400),
    ("carriers", "Companies that drive for us", ("countries",), 30),
    ("customers", "Who sends goods", ("cities", "payment_terms"), 2_000),
    ("contacts", "People at our customers", ("customers",), 3_000),
    ("addresses", "Where goods are fetched and brought", ("customers", "cities"), 4_000),
    ("drivers", "Who drives", ("carriers",), 200),
    ("vehicles", "What they drive", ("carriers", "vehicle_types"), 150),
    ("routes", "From a warehouse to a city", ("warehouses", "cities"), 500),
    ("tariffs", "Prices of a route", ("routes", "service_levels"), 2_500),
    ("contracts", "Agreed discounts", ("customers", "service_levels"), 1_200),
    ("trips", "One drive of a vehicle", ("vehicles", "drivers"), 8_000),
    ("packages", "Pieces of a shipment", ("shipments",), 20_000),
    ("events", "What happened to a shipment", ("shipments",), 20_000),
    ("invoices", "What is to be paid", ("customers", "currencies"), 10_000),
    ("invoice_lines", "What for", ("invoices", "shipments"), 20_000),
    ("payments", "What was paid", ("invoices",), 8_000),
    ("claims", "Complaints", ("shipments", "claim_reasons"), 1_000),
    ("audit_log", "Who changed what", ("customers",), 5_000),
)
_SHIPMENTS = """
CREATE TABLE shipments (
  id integer PRIMARY KEY, customer_id integer NOT NULL REFERENCES customers (id),
  route_id integer NOT NULL REFERENCES routes (id), status text NOT NULL, weight_kg numeric(10, 3) NOT NULL,
  price numeric(12, 2) NOT NULL, ordered_on date NOT NULL, delivered_at timestamptz, fragile boolean NOT NULL,
  notes text, tags text[], details jsonb
);
INSERT INTO shipments SELECT i, i % 2000 + 1, i % 500 + 1,
  (ARRAY['open', 'loaded', 'delivered', 'delivered', 'delivered', 'returned'])[i % 6 + 1],
  (i % 90000) / 1000.0 + 0.125, (i % 5000) / 4.0 + 9.75, DATE '2024-01-01' + i % 700,
  CASE WHEN i % 6 BETWEEN 2 AND 4
       THEN TIMESTAMPTZ '2024-01-02 08:00:00+00' + (i % 700) * INTERVAL '1 day' END,
  i % 9 = 0, CASE WHEN i % 4 = 0 THEN 'handle with care, ação nº ' || i END,
  CASE WHEN i % 10 = 0 THEN ARRAY['cold', 'tall'] END, jsonb_build_object('gate', i % 12, 'seal', 'S' || i)
FROM generate_series(1, {rows}) i;
CREATE INDEX shipments_by_customer ON shipments (customer_id, ordered_on);
CREATE INDEX shipments_by_status ON shipments (status) WHERE status <> 'delivered';
COMMENT ON TABLE shipments IS 'One consignment from a warehouse to a customer';
COMMENT ON COLUMN shipments.price IS 'In euros, without tax';
COMMENT ON COLUMN shipments.status IS 'open, loaded, delivered or returned';
"""
_REST = """
CREATE TABLE users (
  id integer PRIMARY KEY, login text NOT NULL UNIQUE, password_hash text NOT NULL, salary numeric);
INSERT INTO users SELECT i, 'user' || i, md5(i::text), 1000 + i FROM generate_series(1, 50) i;
COMMENT ON TABLE users IS 'Who may log in';
CREATE VIEW open_shipments AS SELECT id, customer_id, price FROM shipments WHERE status = 'open';
COMMENT ON VIEW open_shipments IS 'What has not left yet';
CREATE SCHEMA archive;
CREATE TABLE archive.shipments_2023 (
  id integer PRIMARY KEY, customer_id integer REFERENCES public.customers (id));
CREATE VIEW archive.customer_turnover AS
  SELECT customer_id, sum(price) AS turnover FROM public.shipments GROUP BY customer_id;
"""


def fill_postgres(url: str, *, shipments: int = SHIPMENTS) -> None:
    """Everything. About two seconds for 100,000 shipments."""
    with psycopg.connect(url) as connection:
        # The keys are right by how the rows are made; checking each of them is most of the time.
        connection.execute("SET session_replication_role = replica")
        for name, description, rows in _SMALL:
            connection.execute(_dimension(name, description, rows).encode())
        for name, description, parents, rows in _LARGER:
            if name == "packages":
                connection.execute(_SHIPMENTS.format(rows=shipments).encode())
            connection.execute(_hanging(name, description, parents, rows).encode())
        connection.execute(_REST.encode())
        connection.commit()
        connection.autocommit = True
        connection.execute("ANALYZE")


def _dimension(name: str, description: str, rows: int) -> str:
    return f"""
    CREATE TABLE {name} (
      id integer PRIMARY KEY, code text NOT NULL UNIQUE, name text NOT NULL, active boolean);
    INSERT INTO {name} SELECT i, upper(left('{name}', 3)) || i, initcap('{name}') || ' ' || i, i % 7 <> 0
    FROM generate_series(1, {rows}) i;
    COMMENT ON TABLE {name} IS '{description}';
    COMMENT ON COLUMN {name}.code IS 'As it stands on labels';
    """


def _hanging(name: str, description: str, parents: tuple[str, ...], rows: int) -> str:
    keys = ", ".join(f"{parent}_id integer NOT NULL REFERENCES {parent} (id)" for parent in parents)
    # Every parent has at least five rows, so each of these is there.
    values = ", ".join(
        f"i % 5 + {place + 1}" if place == 0 else "i % 4 + 1" for place, _ in enumerate(parents)
    )
    return f"""
    CREATE TABLE {name} (
      id integer PRIMARY KEY, {keys}, name text NOT NULL, amount numeric(12, 2), made_on date);
    INSERT INTO {name} SELECT i, {values}, initcap('{name}') || ' ' || i, (i % 1000) / 4.0,
      DATE '2024-01-01' + i % 700 FROM generate_series(1, {rows}) i;
    CREATE INDEX {name}_by_{parents[0]} ON {name} ({parents[0]}_id);
    COMMENT ON TABLE {name} IS '{description}';
    COMMENT ON COLUMN {name}.amount IS 'In euros';
    """


_TWIN = """
CREATE TABLE countries (id INTEGER PRIMARY KEY, code TEXT NOT NULL UNIQUE, name TEXT NOT NULL);
CREATE TABLE customers (id INTEGER PRIMARY KEY, countries_id INTEGER NOT NULL REFERENCES countries (id),
  name TEXT NOT NULL, amount DECIMAL(12, 2));
CREATE TABLE routes (id INTEGER PRIMARY KEY, name TEXT NOT NULL);
CREATE TABLE users (id INTEGER PRIMARY KEY, login TEXT NOT NULL UNIQUE, password_hash TEXT NOT NULL,
  salary DECIMAL(12, 2));
CREATE TABLE shipments (id INTEGER PRIMARY KEY, customer_id INTEGER NOT NULL REFERENCES customers (id),
  route_id INTEGER NOT NULL REFERENCES routes (id), status TEXT NOT NULL, price DECIMAL(12, 2) NOT NULL,
  ordered_on DATE NOT NULL, notes TEXT);
CREATE TABLE payments (id INTEGER PRIMARY KEY, shipment_id INTEGER NOT NULL REFERENCES shipments (id),
  amount DECIMAL(12, 2) NOT NULL);
CREATE INDEX shipments_by_customer ON shipments (customer_id, ordered_on);
CREATE VIEW open_shipments AS SELECT id, customer_id, price FROM shipments WHERE status = 'open';
INSERT INTO countries SELECT i, 'C' || i, 'Country ' || i FROM {counting_to_40};
INSERT INTO customers SELECT i, i % 40 + 1, 'Customer ' || i, (i % 1000) / 4.0 FROM {counting_to_200};
INSERT INTO routes SELECT i, 'Route ' || i FROM {counting_to_50};
INSERT INTO users SELECT i, 'user' || i, 'hash' || i, 1000 + i FROM {counting_to_50};
INSERT INTO shipments SELECT i, i % 200 + 1, i % 50 + 1,
  CASE i % 6 WHEN 0 THEN 'open' WHEN 1 THEN 'loaded' WHEN 5 THEN 'returned' ELSE 'delivered' END,
  (i % 5000) / 4.0 + 9.75, {day}, CASE WHEN i % 4 = 0 THEN 'ação nº ' || i END FROM {counting_to_shipments};
INSERT INTO payments SELECT i, i, (i % 100) / 4.0 FROM {counting_to_200};
"""


def fill_sqlite(path: Path) -> None:
    connection = sqlite3.connect(path)
    try:
        connection.executescript(_twin(_sqlite_counting, "date('2024-01-01', '+' || (i % 700) || ' days')"))
    finally:
        connection.close()


def fill_duckdb(path: Path) -> None:
    with duckdb.connect(str(path)) as connection:
        connection.execute(_twin(_duckdb_counting, "DATE '2024-01-01' + (i % 700)::INTEGER"))
        connection.execute("COMMENT ON TABLE shipments IS 'One consignment from a warehouse to a customer'")
        connection.execute("COMMENT ON COLUMN shipments.price IS 'In euros, without tax'")


def _twin(counting, day: str) -> str:
    ends = {"40": 40, "200": 200, "50": 50, "shipments": TWIN_SHIPMENTS}
    return _TWIN.format(day=day, **{f"counting_to_{name}": counting(end) for name, end in ends.items()})


def _sqlite_counting(end: int) -> str:
    return (
        f"(WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {end}) SELECT i FROM n)"
    )


def _duckdb_counting(end: int) -> str:
    return f"range(1, {end + 1}) n(i)"
