"""What msgspec and jsonschema_rs say of a wrong value, in Portuguese.

Their sentences are English. One that is not known here stays as it is: it names the value and the rule.
"""

import re

_PATTERNS = [
    (re.compile(pattern, re.DOTALL), portuguese)
    for pattern, portuguese in (
        # msgspec
        (r"expected (`[^`]+`), got (`[^`]+`)", r"esperado \1, recebido \2"),
        (r"expected (`[^`]+`) of length (.+)", r"esperado \1 de comprimento \2"),
        (r"expected (`[^`]+`) matching regex (.+)", r"esperado \1 que corresponda à expressão regular \2"),
        (r"expected (`[^`]+`) that's a multiple of (.+)", r"esperado \1 múltiplo de \2"),
        (r"expected (`[^`]+`) with a timezone component", r"esperado \1 com fuso horário"),
        (r"expected (`[^`]+`) with no timezone component", r"esperado \1 sem fuso horário"),
        (r"expected (`[^`]+`.*)", r"esperado \1"),
        # Pydantic, put into the words of msgspec (`pydantic_types`)
        (r"expected a value of length (.+)", r"esperado um valor de comprimento \1"),
        (
            r"expected a value matching regex (.+)",
            r"esperado um valor que corresponda à expressão regular \1",
        ),
        (r"expected a value that's a multiple of (.+)", r"esperado um valor múltiplo de \1"),
        (r"expected a value (.+)", r"esperado um valor \1"),
        (r"invalid (?:enum )?value (.+)", r"valor inválido \1"),
        (r"invalid RFC3339 encoded (\w+)", r"`\1` inválido: escreva-o como na RFC 3339"),
        (r"invalid ISO8601 duration", "duração inválida: escreva-a como na ISO 8601"),
        (r"invalid base64 encoded string", "texto base64 inválido"),
        (r"invalid decimal string", "número decimal inválido"),
        (r"invalid UUID", "UUID inválido"),
        (r"(?:integer|number) out of range", "número fora do intervalo"),
        (r"JSON is malformed: (.+)", r"o JSON está malformado: \1"),
        (r"input data was truncated", "o JSON termina antes da hora"),
        # jsonschema_rs
        (r"(.+) is not of types? (.+)", r"\1 não é do tipo \2"),
        (r"(.+) is a required property", r"falta \1, que é obrigatório"),
        (
            r"(?:additional|unevaluated) properties are not allowed \((.+) (?:was|were) unexpected\)",
            r"não são conhecidos aqui: \1",
        ),
        (r"false schema does not allow (.+)", r"não é aceito aqui: \1"),
        (r"(.+) is greater than or equal to the maximum of (.+)", r"\1 deve ser menor que \2"),
        (r"(.+) is less than or equal to the minimum of (.+)", r"\1 deve ser maior que \2"),
        (r"(.+) is greater than the maximum of (.+)", r"\1 passa do máximo, \2"),
        (r"(.+) is less than the minimum of (.+)", r"\1 fica abaixo do mínimo, \2"),
        (r"(.+) is shorter than (\d+) characters?", r"\1 deve ter \2 caracteres ou mais"),
        (r"(.+) is longer than (\d+) characters?", r"\1 deve ter no máximo \2 caracteres"),
        (r"(.+) has less than (\d+) items?", r"\1 deve ter \2 itens ou mais"),
        (r"(.+) has more than (\d+) items?", r"\1 deve ter no máximo \2 itens"),
        (r"(.+) has less than (\d+) propert(?:y|ies)", r"\1 deve ter \2 campos ou mais"),
        (r"(.+) has more than (\d+) propert(?:y|ies)", r"\1 deve ter no máximo \2 campos"),
        (r"(.+) has non-unique elements", r"\1 tem elementos repetidos"),
        (r"(.+) is not one of (.+) or (\d+) other candidates?", r"\1 não é um destes: \2 ou \3 outros"),
        (r"(.+) is not one of (.+) or ([^ ]+)", r"\1 não é um destes: \2 ou \3"),
        (r"(.+) is not one of (.+)", r"\1 não é um destes: \2"),
        (r"(.+) was expected", r"o esperado é \1"),
        (r"(.+) does not match (.+)", r"\1 não corresponde a \2"),
        (r"(.+) is not a multiple of (.+)", r"\1 não é múltiplo de \2"),
        (r"(.+) is not a (\"[\w-]+\")", r"\1 não é um \2"),
        (
            r"(.+) is not valid under any of the schemas listed in the '(\w+)' keyword",
            r"\1 não cabe em nenhum dos esquemas de '\2'",
        ),
        (
            r"(.+) is valid under more than one of the schemas listed in the '(\w+)' keyword",
            r"\1 cabe em mais de um dos esquemas de '\2'",
        ),
        (r"none of (.+) are valid under the given schema", r"nada em \1 cabe no esquema dado"),
    )
]


def in_portuguese(reason: str) -> str:
    """Translate one sentence; its first letter may be large or small."""
    small = reason if reason.startswith(("JSON", '"')) else reason[:1].lower() + reason[1:]
    for pattern, portuguese in _PATTERNS:
        if found := pattern.fullmatch(small):
            return found.expand(portuguese)
    return reason
