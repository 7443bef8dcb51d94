"""A loopback SEC with one company, made up, for the real edgartools."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

CIK = 1234567
NAME = "Toolyard Test Corp"
REVENUES = {2023: 100_000_000, 2024: 150_000_000, 2025: 225_000_000}
PROFITS = {2023: 10_000_000, 2024: 15_000_000, 2025: 30_000_000}
PLACE = {
    "street1": "1 Yard Street",
    "street2": None,
    "city": "Lisbon",
    "stateOrCountry": "S1",
    "stateOrCountryDescription": "Portugal",
    "zipCode": "1000",
}
FILINGS: dict[str, list[Any]] = {
    "accessionNumber": ["0001234567-26-000007", "0001234567-26-000003"],
    "filingDate": ["2026-05-04", "2026-02-20"],
    "reportDate": ["2026-03-31", "2025-12-31"],
    "acceptanceDateTime": ["2026-05-04T16:30:00.000Z", "2026-02-20T16:30:00.000Z"],
    "act": ["34", "34"],
    "form": ["10-Q", "10-K"],
    "fileNumber": ["001-12345", "001-12345"],
    "filmNumber": ["1", "2"],
    "items": ["", ""],
    "core_type": ["XBRL", "XBRL"],
    "size": [1000, 2000],
    "isXBRL": [1, 1],
    "isInlineXBRL": [1, 1],
    "primaryDocument": ["q.htm", "k.htm"],
    "primaryDocDescription": ["10-Q", "10-K"],
}
SUBMISSIONS: dict[str, Any] = {
    "cik": f"{CIK:010}",
    "entityType": "operating",
    "sic": "7372",
    "sicDescription": "Services-Prepackaged Software",
    "ownerOrg": "06 Technology",
    "insiderTransactionForOwnerExists": 0,
    "insiderTransactionForIssuerExists": 0,
    "name": NAME,
    "tickers": ["YARD"],
    "exchanges": ["NYSE"],
    "ein": "123456789",
    "description": "",
    "website": "",
    "investorWebsite": "",
    "category": "Large accelerated filer",
    "fiscalYearEnd": "1231",
    "stateOfIncorporation": "DE",
    "stateOfIncorporationDescription": "DE",
    "addresses": {"mailing": PLACE, "business": PLACE},
    "phone": "1",
    "flags": "",
    "formerNames": [],
    "filings": {"recent": FILINGS, "files": []},
}


def _concept(label: str, values: dict[int, int]) -> dict[str, Any]:
    rows = [
        {
            "start": f"{year}-01-01",
            "end": f"{year}-12-31",
            "val": value,
            "accn": "0001234567-26-000003",
            "fy": year,
            "fp": "FY",
            "form": "10-K",
            "filed": f"{year + 1}-02-20",
            "frame": f"CY{year}",
        }
        for year, value in values.items()
    ]
    return {"label": label, "description": label, "units": {"USD": rows}}


PAGES: dict[str, Any] = {
    "/files/company_tickers.json": {"0": {"cik_str": CIK, "ticker": "YARD", "title": NAME}},
    f"/submissions/CIK{CIK:010}.json": SUBMISSIONS,
    f"/api/xbrl/companyfacts/CIK{CIK:010}.json": {
        "cik": CIK,
        "entityName": NAME,
        "facts": {
            "us-gaap": {
                "Revenues": _concept("Revenues", REVENUES),
                "NetIncomeLoss": _concept("Net income", PROFITS),
            }
        },
    },
}


@contextmanager
def loopback_sec() -> Iterator[tuple[str, set[str]]]:
    """Its address, and who asked: the SEC wants every client to say so."""
    askers: set[str] = set()

    class Sec(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            askers.add(self.headers.get("User-Agent", ""))
            found = PAGES.get(self.path)
            if found is None:
                self.send_error(404)
                return
            body = json.dumps(found).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Sec)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", askers
    finally:
        server.shutdown()
        server.server_close()
