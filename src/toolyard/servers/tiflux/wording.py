"""What the steps of this server say themselves, in each language."""

from msgspec import Struct

from ...kit.languages import Locale


class Own(Struct, frozen=True, kw_only=True):
    entity: str
    field: str
    option: str
    field_unnamed: str
    no_period: str
    half_period: str


ENGLISH = Own(
    entity="entity",
    field="custom field",
    option="option",
    field_unnamed="entities[{index}] needs entity_field_id, or entity_name and entity_field_name.",
    no_period="{name!r} must be a moment in ISO 8601, and the end after the start.",
    half_period="Give both 'compare_start_datetime' and 'compare_end_datetime', or neither.",
)

PORTUGUESE = Own(
    entity="entidade",
    field="campo personalizado",
    option="opção",
    field_unnamed="entities[{index}] precisa de entity_field_id, ou de entity_name e entity_field_name.",
    no_period="{name!r} deve ser um instante em ISO 8601, e o fim depois do início.",
    half_period="Informe 'compare_start_datetime' e 'compare_end_datetime', ou nenhum dos dois.",
)


def own(locale: Locale) -> Own:
    return PORTUGUESE if locale == "pt" else ENGLISH
