"""A shop to try things with, mounted by `make run`: some customers, 412 orders, and what one does with them.

All of it is made up, the same every time, and kept in memory; nobody is sent anything.
"""

import random
from datetime import date, timedelta
from typing import Annotated, Literal

from msgspec import Meta, Struct

from toolyard.kit import Server, ToolError

server = Server(
    "shop",
    version="1.0.0",
    title="A shop",
    instructions="Orders have numbers from 1001 on. Amounts are in euros.",
)

Status = Literal["open", "paid", "shipped", "refunded"]
GOODS = {"kettle": 39.9, "lamp": 64.5, "chair": 119.0, "desk": 349.0, "clock": 24.0, "shelf": 89.9}
CITIES = ("Lisbon", "Porto", "Madrid", "Lyon", "Berlin", "Vienna")
FIRST = ("Ana", "Bruno", "Clara", "Dinis", "Eva", "Filipe", "Greta", "Hugo", "Iris", "Jonas")
LAST = ("Almeida", "Baker", "Costa", "Dietrich", "Esteves")


class Customer(Struct):
    id: int
    name: str
    email: str
    city: str


class Order(Struct):
    number: int
    day: str
    buyer: str
    city: str
    amount: float
    status: Status


class Done(Struct):
    order: int
    message: str


def _customers(chance: random.Random) -> list[Customer]:
    names = [f"{first} {last}" for last in LAST for first in FIRST]
    return [
        Customer(at, name, f"{name.lower().replace(' ', '.')}@example.org", chance.choice(CITIES))
        for at, name in enumerate(names, start=1)
    ]


def _orders(chance: random.Random, customers: list[Customer]) -> dict[int, Order]:
    orders: dict[int, Order] = {}
    for at in range(412):
        number, day = 1001 + at, date(2026, 1, 1) + timedelta(days=at // 2)
        buyer = chance.choice(customers)
        amount = round(chance.choice(list(GOODS.values())) * chance.randint(1, 4), 2)
        status: Status = chance.choices(("open", "paid", "shipped", "refunded"), (2, 5, 9, 1))[0]
        orders[number] = Order(number, day.isoformat(), buyer.name, buyer.city, amount, status)
    return orders


_chance = random.Random(412)
CUSTOMERS = _customers(_chance)
ORDERS = _orders(_chance, CUSTOMERS)
Number = Annotated[int, Meta(description="The number of the order, such as 1001")]


@server.tool(read_only=True)
def list_orders(status: Annotated[Status | None, "Only orders that are so"] = None) -> list[Order]:
    """List all orders: who, how much, and whether it is open, paid or shipped."""
    return [order for order in ORDERS.values() if status in (None, order.status)]


@server.tool(read_only=True)
def get_order(number: Number) -> Order:
    """One order by its number."""
    return _order(number)


@server.tool(read_only=True)
def find_customer(text: Annotated[str, "A part of the name, the address or the city"]) -> list[Customer]:
    """Find customers by name, email address or city."""
    wanted = text.casefold()
    return [one for one in CUSTOMERS if wanted in f"{one.name} {one.email} {one.city}".casefold()]


@server.tool(read_only=True)
def price(item: Annotated[str, "What is sold, such as lamp"]) -> float:
    """What an item costs, for one piece."""
    if item not in GOODS:
        raise ToolError(f"No item {item!r}; there are {', '.join(GOODS)}")
    return GOODS[item]


@server.tool
def send_invoice(number: Number) -> Done:
    """Send the invoice of an order to its customer by email."""
    order = _order(number)
    return Done(number, f"An invoice of {order.amount:.2f} € would go to {order.buyer} now.")


@server.tool(destructive=True, idempotent=True)
def refund_order(number: Number) -> Done:
    """Pay the money of an order back and close it."""
    order = _order(number)
    order.status = "refunded"
    return Done(number, f"{order.amount:.2f} € would go back to {order.buyer} now.")


def _order(number: int) -> Order:
    if number not in ORDERS:
        raise ToolError(f"No order {number}; they go from {min(ORDERS)} to {max(ORDERS)}")
    return ORDERS[number]
