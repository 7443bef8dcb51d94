"""A real MariaDB, where one is installed: it speaks MySQL's protocol and most of its SQL."""

import getpass
import os
import subprocess
import time
from pathlib import Path
from types import TracebackType

import pymysql

from scripts.bootstrap import find_program
from tests.waiting import PATIENCE


class MariaServer:
    """On a socket in its own folder, as nobody when that is possible; ended by its pid."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"mysql://reader:correct-horse-battery@localhost/warehouse?socket={self._folder}/socket"

    def connect(self) -> "pymysql.Connection[pymysql.cursors.Cursor]":
        return pymysql.connect(unix_socket=f"{self._folder}/socket", user=_user(), autocommit=True)

    def __enter__(self) -> "MariaServer":
        self._folder.chmod(0o777)
        user = _user()
        made = [
            find_program("mariadb-install-db"),
            "--no-defaults",
            f"--datadir={self._folder}/data",
            f"--user={user}",
        ]
        made += [
            "--auth-root-authentication-method=socket",
            f"--auth-root-socket-user={user}",
            "--skip-test-db",
        ]
        subprocess.run(made, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self._process = subprocess.Popen(
            [
                *(
                    find_program("mariadbd"),
                    "--no-defaults",
                    f"--datadir={self._folder}/data",
                    f"--user={user}",
                ),
                *(
                    f"--socket={self._folder}/socket",
                    "--skip-networking",
                    "--innodb-flush-log-at-trx-commit=0",
                ),
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=(self._folder / "log").open("wb"),
        )
        self._wait()
        self._fill()
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait(PATIENCE)

    def _wait(self) -> None:
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                self.connect().close()
                return
            except pymysql.MySQLError:
                ended = self._process is None or self._process.poll() is not None
                if ended or time.monotonic() > deadline:
                    raise RuntimeError((self._folder / "log").read_text(errors="replace")) from None
                time.sleep(0.05)

    def _fill(self) -> None:
        with self.connect() as connection, connection.cursor() as cursor:
            for statement in _WAREHOUSE.split(";\n"):
                if statement.strip():
                    cursor.execute(statement)


def _user() -> str:
    """Who may be the server's root over the socket: whoever runs this."""
    return getpass.getuser() if os.geteuid() else "root"


_WAREHOUSE = """
CREATE DATABASE warehouse CHARACTER SET utf8mb4;
USE warehouse;
CREATE TABLE customers (id INTEGER PRIMARY KEY, name VARCHAR(50) NOT NULL COMMENT 'As on the invoice')
  COMMENT 'Who sends goods';
CREATE TABLE users (
  id INTEGER PRIMARY KEY, login VARCHAR(50) NOT NULL UNIQUE, password_hash TEXT, salary DECIMAL(12, 2));
CREATE TABLE shipments (id INTEGER PRIMARY KEY, customer_id INTEGER NOT NULL REFERENCES customers (id),
  status VARCHAR(20) NOT NULL, price DECIMAL(12, 2) NOT NULL COMMENT 'In euros, without tax',
  ordered_on DATE NOT NULL, notes TEXT, KEY shipments_by_customer (customer_id, ordered_on))
  COMMENT 'One consignment';
CREATE VIEW open_shipments AS SELECT id, customer_id, price FROM shipments WHERE status = 'open';
INSERT INTO customers SELECT seq, concat('Customer ', seq) FROM seq_1_to_200;
INSERT INTO users SELECT seq, concat('user', seq), md5(seq), 1000 + seq FROM seq_1_to_50;
INSERT INTO shipments SELECT seq, seq % 200 + 1, elt(seq % 6 + 1, 'open', 'loaded', 'delivered', 'delivered',
  'delivered', 'returned'), (seq % 5000) / 4 + 9.75, DATE '2024-01-01' + INTERVAL seq % 700 DAY,
  IF(seq % 4 = 0, concat('ação nº ', seq), NULL) FROM seq_1_to_5000;
CREATE USER reader@localhost IDENTIFIED BY 'correct-horse-battery';
GRANT ALL ON *.* TO reader@localhost;
"""
