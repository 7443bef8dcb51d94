"""The sample database of the package: a small shop with the same rows every time, made at the first use.

The comments in its SQLite schema are the descriptions of the tables, in either language.
"""

import random
import re
import sqlite3
from datetime import date, timedelta
from functools import cache

from ...languages import Locale

_SCHEMA = """
CREATE TABLE customers -- People and companies that have bought something.
(
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL, -- Full name
  email TEXT NOT NULL UNIQUE, -- Where receipts are sent
  city TEXT NOT NULL,
  country TEXT NOT NULL, -- ISO 3166 code of two letters
  since DATE NOT NULL -- Day of the first contact
);
CREATE TABLE categories -- Groups of products.
(
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL UNIQUE
);
CREATE TABLE products -- What the shop sells.
(
  id INTEGER PRIMARY KEY,
  category_id INTEGER NOT NULL REFERENCES categories (id),
  name TEXT NOT NULL,
  price DECIMAL(10, 2) NOT NULL, -- In euros, today
  stock INTEGER NOT NULL DEFAULT 0, -- Pieces in the warehouse
  discontinued BOOLEAN NOT NULL DEFAULT 0 -- 1 when it is no longer ordered
);
CREATE TABLE orders -- One purchase by one customer.
(
  id INTEGER PRIMARY KEY,
  customer_id INTEGER NOT NULL REFERENCES customers (id),
  ordered_on DATE NOT NULL,
  status TEXT NOT NULL, -- open, paid, shipped or cancelled
  shipped_on DATE -- Empty until it leaves
);
CREATE TABLE order_items -- What an order holds.
(
  order_id INTEGER NOT NULL REFERENCES orders (id),
  line INTEGER NOT NULL, -- Counts from 1 in each order
  product_id INTEGER NOT NULL REFERENCES products (id),
  quantity INTEGER NOT NULL,
  unit_price DECIMAL(10, 2) NOT NULL, -- In euros, on the day of the order
  PRIMARY KEY (order_id, line)
);
CREATE TABLE payments -- Money received for an order.
(
  id INTEGER PRIMARY KEY,
  order_id INTEGER NOT NULL REFERENCES orders (id),
  paid_on DATE NOT NULL,
  amount DECIMAL(10, 2) NOT NULL, -- In euros
  method TEXT NOT NULL -- card, transfer or cash
);
CREATE INDEX orders_by_customer ON orders (customer_id, ordered_on);
CREATE INDEX items_by_product ON order_items (product_id);
CREATE VIEW order_totals AS
SELECT orders.id AS order_id, customer_id, ordered_on, status, round(sum(quantity * unit_price), 2) AS total
FROM orders JOIN order_items ON order_items.order_id = orders.id GROUP BY orders.id;
"""
_IN_PORTUGUESE = {
    "People and companies that have bought something.": "Pessoas e empresas que já compraram algo.",
    "Full name": "Nome completo",
    "Where receipts are sent": "Para onde vão os recibos",
    "ISO 3166 code of two letters": "Código ISO 3166 de duas letras",
    "Day of the first contact": "Dia do primeiro contato",
    "Groups of products.": "Grupos de produtos.",
    "What the shop sells.": "O que a loja vende.",
    "In euros, today": "Em euros, hoje",
    "Pieces in the warehouse": "Peças no estoque",
    "1 when it is no longer ordered": "1 quando não é mais encomendado",
    "One purchase by one customer.": "Uma compra de um cliente.",
    "open, paid, shipped or cancelled": "open (aberto), paid (pago), shipped (enviado) ou cancelled",
    "Empty until it leaves": "Vazio até sair",
    "What an order holds.": "O que há em um pedido.",
    "Counts from 1 in each order": "Conta a partir de 1 em cada pedido",
    "In euros, on the day of the order": "Em euros, no dia do pedido",
    "Money received for an order.": "Dinheiro recebido por um pedido.",
    "In euros": "Em euros",
    "card, transfer or cash": "card (cartão), transfer (transferência) ou cash (dinheiro)",
}

_FIRST = [
    "Ana",
    "Bruno",
    "Carla",
    "Diego",
    "Elisa",
    "Felipe",
    "Grace",
    "Hugo",
    "Inês",
    "João",
    "Karin",
    "Luís",
    "Maria",
    "Nuno",
    "Olga",
    "Paulo",
]
_LAST = ["Almeida", "Brandt", "Costa", "Dubois", "Evans", "Ferreira", "Garcia", "Hansen"]
_PLACES = (
    ("Lisboa", "PT"),
    ("Porto", "PT"),
    ("São Paulo", "BR"),
    ("Madrid", "ES"),
    ("Lyon", "FR"),
    ("Köln", "DE"),
)
_GOODS = {
    "Kitchen": "kettle pan grater teapot apron scale",
    "Garden": "rake hose spade lantern bench gloves",
    "Office": "lamp stapler notebook pen binder chair",
    "Outdoor": "tent stove compass flask rope hammock",
}
_STATUSES = ("paid", "shipped", "shipped", "shipped", "open", "cancelled")
_METHODS = ("card", "card", "transfer", "cash")
_FIRST_DAY = date(2025, 1, 1)


def _schema(locale: Locale) -> str:
    if locale == "en":
        return _SCHEMA
    return re.sub(r"-- (.+)$", lambda found: f"-- {_IN_PORTUGUESE[found[1]]}", _SCHEMA, flags=re.MULTILINE)


@cache
def sample_image(locale: Locale = "en") -> bytes:
    """The whole database as the bytes of its file. Only the comments differ between the languages."""
    connection = sqlite3.connect(":memory:")
    try:
        connection.executescript(_schema(locale))
        _fill(connection, random.Random(20250101))
        connection.commit()
        connection.execute("ANALYZE")
        connection.commit()
        return connection.serialize()
    finally:
        connection.close()


def _fill(connection: sqlite3.Connection, chance: random.Random) -> None:
    _fill_customers(connection, chance)
    prices = _fill_products(connection, chance)
    for order in range(1, 241):
        _fill_order(connection, chance, order, prices)


def _fill_customers(connection: sqlite3.Connection, chance: random.Random) -> None:
    for number in range(1, 49):
        first, last = _FIRST[number % len(_FIRST)], _LAST[number % 7]
        city, country = chance.choice(_PLACES)
        since = _FIRST_DAY - timedelta(days=chance.randrange(900))
        row = (number, f"{first} {last}", f"customer{number}@example.com", city, country, since.isoformat())
        connection.execute("INSERT INTO customers VALUES (?, ?, ?, ?, ?, ?)", row)


def _fill_products(connection: sqlite3.Connection, chance: random.Random) -> dict[int, float]:
    prices: dict[int, float] = {}
    for category, (name, goods) in enumerate(_GOODS.items(), 1):
        connection.execute("INSERT INTO categories VALUES (?, ?)", (category, name))
        for good in goods.split():
            product = len(prices) + 1
            prices[product] = chance.randrange(300, 12000) / 100
            row = (
                product,
                category,
                good.capitalize(),
                prices[product],
                chance.randrange(200),
                product % 11 == 0,
            )
            connection.execute("INSERT INTO products VALUES (?, ?, ?, ?, ?, ?)", row)
    return prices


def _fill_order(
    connection: sqlite3.Connection, chance: random.Random, order: int, prices: dict[int, float]
) -> None:
    day = _FIRST_DAY + timedelta(days=order * 3 // 2)
    status = chance.choice(_STATUSES)
    shipped = (day + timedelta(days=2)).isoformat() if status == "shipped" else None
    row = (order, chance.randrange(1, 49), day.isoformat(), status, shipped)
    connection.execute("INSERT INTO orders VALUES (?, ?, ?, ?, ?)", row)
    total = 0.0
    for line, product in enumerate(chance.sample(sorted(prices), chance.randrange(1, 5)), 1):
        quantity = chance.randrange(1, 6)
        total += quantity * prices[product]
        connection.execute(
            "INSERT INTO order_items VALUES (?, ?, ?, ?, ?)",
            (order, line, product, quantity, prices[product]),
        )
    if status in ("paid", "shipped"):
        paid = (day + timedelta(days=1)).isoformat()
        connection.execute(
            "INSERT INTO payments (order_id, paid_on, amount, method) VALUES (?, ?, ?, ?)",
            (order, paid, round(total, 2), chance.choice(_METHODS)),
        )
