"""What a tenant has from the start. How much of it depends on the seed; what it is called, on the mark."""

from .clock import day
from .making import new_client, person, stored
from .shelves import Json, brief
from .tenant import Tenant
from .ticketing import opened

DESKS = ("Suporte", "Comercial", "Infraestrutura")
STAGES = ("A fazer", "Em andamento", "Aguardando cliente", "Concluído")
PRIORITIES = ("Baixa", "Normal", "Alta", "Urgente")
PEOPLE = (("Ana Souza", "admin"), ("Bruno Lima", "attendant"), ("Carla Dias", "attendant"))
CLIENTS = ("Padaria Aurora", "Clínica Boa Vida", "Transportes Cometa")
TITLES = ("Impressora parada", "Sem acesso ao e-mail", "Lentidão no sistema", "Senha expirada")


def seeded(tenant: Tenant) -> Tenant:
    _organisation(tenant)
    _catalogs(tenant)
    _entities(tenant)
    _clients(tenant)
    _money(tenant)
    _equipment(tenant)
    _knowledge(tenant)
    _tickets(tenant)
    _chats(tenant)
    _waiting(tenant)
    return tenant


def _organisation(tenant: Tenant) -> None:
    text = tenant.text
    for name in ("Atendimento", "Financeiro"):
        tenant.departments.put(name=text(name))
    for name in ("Nível 1", "Nível 2"):
        tenant.technical_groups.put(name=text(name), active=True)
    for name in DESKS:
        desk = tenant.desks.put(
            name=text(name), display_name=text(f"Mesa {name}"), active=True, appointment_type="normal",
            sla_goal=90, review_type="manual", attendance_type="remote", time_limit_to_reopening=7,
            cancelable_tickets=True, internal_desk=False, summary=text("Chamados do dia a dia"),
        )  # fmt: skip
        for index, stage in enumerate(STAGES):
            tenant.stages.put(
                desk["id"], name=text(stage), index=index, first_stage=index == 0,
                last_stage=index == len(STAGES) - 1, max_time="08:00",
            )  # fmt: skip
        for order, priority in enumerate(PRIORITIES):
            tenant.priorities.put(
                desk["id"], name=text(priority), order=order, start_time="04:00", end_time="08:00"
            )
    for name, kind in PEOPLE:
        tenant.users.put(**person(tenant, name, tenant.email(name.split()[0].lower()), kind))


def _catalogs(tenant: Tenant) -> None:
    for desk, name in zip(list(tenant.desks)[:2], ("Serviços de TI", "Vendas"), strict=True):
        catalog = tenant.catalogs.put(desk["id"], name=tenant.text(name))
        for area_name in ("Hardware", "Software"):
            area = tenant.areas.put(
                catalog["id"], name=tenant.text(area_name), services_catalog=brief(catalog)
            )
            for item_name in ("Instalação", "Manutenção"):
                tenant.items.put(
                    area["id"], name=tenant.text(f"{item_name} de {area_name}"), start_time="01:00",
                    end_time="04:00", area=brief(area), catalog=brief(catalog),
                )  # fmt: skip


def _entities(tenant: Tenant) -> None:
    kinds = (("ticket", "tickets"), ("cliente", "clients"), ("solicitante", "requestors"))
    for name, applied in kinds:
        entity = tenant.entities.put(name=tenant.text(f"Dados do {name}"), active=True, applied_in=applied)
        tenant.entity_fields.put(
            entity["id"], name=tenant.text("Observação"), field_type="text", required=False
        )
        choice = tenant.entity_fields.put(
            entity["id"], name=tenant.text("Setor"), field_type="single_select", required=False
        )
        for value in ("Fiscal", "Compras"):
            tenant.options.put(choice["id"], value=tenant.text(value), null_option=False)


def _clients(tenant: Tenant) -> None:
    for number, name in enumerate(CLIENTS):
        client = tenant.clients.put(**new_client(tenant, name, tenant.text(f"{name} Ltda")))
        tenant.addresses.put(
            client["id"], street=tenant.text("Rua das Flores"), number=100 + number, cep="89200-000",
            city=tenant.text("Joinville"), state="SC", neighborhood=tenant.text("Centro"), complement="",
        )  # fmt: skip
        tenant.contacts.put(
            client["id"], use=tenant.text("Comercial"), telephone="47999990000", owner=tenant.text("Davi"),
            email=tenant.email("davi"), country="BR",
        )  # fmt: skip
        for who in ("Eva Prado", "Fábio Reis"):
            tenant.requestors.put(
                client["id"], name=tenant.text(f"{who} {number + 1}"), telephone="47988880000",
                email=tenant.email(f"{who.split()[0].lower()}{number + 1}"), extension="7",
                can_open_ticket=True, client=brief(client), created_at=day(0), updated_at=day(0),
            )  # fmt: skip


def _money(tenant: Tenant) -> None:
    client = tenant.clients.first()
    for name, status in (("Suporte mensal", "actives"), ("Projeto", "expired")):
        contract = tenant.contracts.put(
            name=tenant.text(name), client=brief(client), status=status, cancelled=False, duration=12,
            contract_type={"id": 21, "name": tenant.text("Horas")}, modality=tenant.text("Pré-pago"),
            expiration_date="2026-12-31", readjustment_date="2027-01-01", total_value="1200.00",
        )  # fmt: skip
        tenant.riders.put(rider_number=1, start_date="2026-01-01", cancel_date=None, contract=brief(contract))
    tenant.loose_services.put(name=tenant.text("Visita avulsa"))
    tenant.shifts.put(
        name=tenant.text("Deslocamento urbano"), reference="All", value="50.00",
        contract=brief(tenant.contracts.first()), client=brief(client),
    )  # fmt: skip
    for number, state in enumerate(((False, False), (True, False), (False, True))):
        tenant.billings.put(
            client_id=client["id"], client_name=client["name"], billing_date=f"2026-08-0{number + 1}",
            due_date=f"2026-08-1{number + 1}", nfe_number=700 + number, ticket_number=1,
            real_value="310.50", reversal=state[0], paid=state[1],
        )  # fmt: skip


def _equipment(tenant: Tenant) -> None:
    client = tenant.clients.first()
    group = tenant.equipment_groups.put(name=tenant.text("Recepção"), client=brief(client))
    for name in ("Notebook", "Servidor"):
        kind = tenant.equipment_types.put(name=tenant.text(name))
        equipment = tenant.equipments.put(
            name=tenant.text(f"{name} 01"), client=brief(client), equipment_type=brief(kind),
            equipment_group=brief(group), online=True, acquisition_date="2025-01-10",
            warranty_date="2027-01-10", last_seen=day(5),
        )  # fmt: skip
        tenant.softwares.put(
            equipment["id"], name=tenant.text("Editor"), version="4.2", vendor=tenant.text("Casa")
        )


def _knowledge(tenant: Tenant) -> None:
    for title in ("Procedimentos", "Perguntas frequentes"):
        folder = tenant.folders.put(title=tenant.text(title), icon="folder", tags=[], qty_knowledges=1)
        tenant.knowledges.put(
            title=tenant.text(f"Como usar {title.lower()}"), description=f"<p>{tenant.text('Passo 1')}</p>",
            knowledge_folder_ids=[folder["id"]], tags=[tenant.mark], private=False, created_at=day(2),
            updated_at=day(3),
        )  # fmt: skip


def _tickets(tenant: Tenant) -> None:
    clients, desks, users = list(tenant.clients), list(tenant.desks), list(tenant.users)
    for number in range(24 + tenant.seed % 5):
        ticket = opened(
            tenant,
            {
                "title": tenant.text(f"{TITLES[number % len(TITLES)]} {number + 1}"),
                "description": f"<p>{tenant.text('Aconteceu de novo')}</p>",
                "client_id": clients[number % len(clients)]["id"],
                "desk_id": desks[number % len(desks)]["id"],
                "responsible_id": users[number % 2]["id"],
            },
            day(number),
        )
        if number % 4 == 3:
            ticket |= {"is_closed": True, "closed_at": day(number, "17:00:00")}
            ticket["status"] = {"id": 2, "name": "Closed", "default_open": False}
    _conversation(tenant, 1)


def _conversation(tenant: Tenant, number: int) -> None:
    who = brief(tenant.me)
    answer = tenant.answers.put(
        number, name=f"<p>{tenant.text('Estamos vendo')}</p>", author=who, answer_time=day(1),
        answer_origin="attendant", files_count=1, signature=False,
    )  # fmt: skip
    tenant.answer_files.put(answer["id"], **stored(tenant, tenant.text("foto") + ".png", "image/png", 2048))
    tenant.files.put(number, **stored(tenant, tenant.text("tela") + ".png", "image/png", 1024))
    for words in ("Verificar cabo", "Cliente avisado"):
        tenant.communications.put(
            number, text=f"<p>{tenant.text(words)}</p>", user=who, created_at=day(2), updated_at=day(2),
            files=[], files_count=0,
        )  # fmt: skip
    for shelf in (tenant.appointments, tenant.pre_appointments):
        shelf.put(
            number, date="2026-08-03", init_time="09:00", end_time="10:30", user=who,
            description=tenant.text("Atendimento remoto"), desk=brief(tenant.desks.first()),
            ticket_number=number, valorization={"value": "150.00", "manual_value": False},
        )  # fmt: skip
    tenant.checklists.put(
        number, name=tenant.text("Fechamento"), required=True, pending=True, created_at=day(1),
        updated_at=day(1), fields=_checklist(tenant),
    )  # fmt: skip
    for area, operation in ((0, "updated"), (1, "created")):
        tenant.histories.put(
            number, action=tenant.text("Mudou"), user=who, history_of=area, _type=1, _operation=operation,
            _created_at=day(2),
            changes={"fields": ["stage"], "old_values": {"stage": tenant.text("A fazer")},
                     "new_values": {"stage": tenant.text("Em andamento")}},
        )  # fmt: skip


def _checklist(tenant: Tenant) -> list[Json]:
    answers = ((1, "Sim"), (2, "Não"))
    options = [{"id": id, "value": tenant.text(words), "checked": False} for id, words in answers]
    blank = {"required": True, "filled": False}
    return [
        {"index": 0, "title": tenant.text("Causa"), "type": "text", "value": None, "options": [], **blank},
        {"index": 1, "title": tenant.text("Itens"), "type": "checkbox", "options": options, **blank},
    ]


def _chats(tenant: Tenant) -> None:
    client, requestor = tenant.clients.first(), tenant.requestors.first()
    mine, other = (brief(user) for user in list(tenant.users)[:2])
    states: tuple[Json, ...] = ({}, {"responsible": mine}, {"responsible": other}, {"archived": True})
    for number, state in enumerate(states):
        chat = tenant.chats.put(**{
            "room": f"room-{tenant.mark}-{number}", "origin": "whatsapp", "online": True, "archived": False,
            "canceled": False, "waiting_answer": True, "assessment": None, "assumed_at": None,
            "started_by": "client", "last_client_message": tenant.text("Alguém aí?"), "client": brief(client),
            "department": brief(tenant.departments.first()), "requestor": brief(requestor),
            "responsible": None, "ticket": None, "number": 9000 + number, "created_at": day(number),
            "updated_at": day(number), "finished_at": day(number) if state.get("archived") else None,
        } | state)  # fmt: skip
        for words in ("Bom dia", "Preciso de ajuda"):
            tenant.messages.put(
                chat["id"], text=tenant.text(words), type="text", status="read", media=None,
                quoted_message=None, author=brief(requestor), created_at=day(number),
            )  # fmt: skip


def _waiting(tenant: Tenant) -> None:
    tenant.pre_tickets.put(
        title=tenant.text("Pedido pelo site"), description=tenant.text("Quero um orçamento"), archived=False,
        client=brief(tenant.clients.first()), requestor_name=tenant.text("Gil"),
        requestor_email=tenant.email("gil"), requestor_telephone="47977770000", created_at=day(4),
    )  # fmt: skip
    for name, status in (("Boas-vindas", "APPROVED"), ("Cobrança", "PENDING")):
        fields = {"name": tenant.text(name), "status": status, "integration_id": 41, "category": "UTILITY"}
        tenant.gupshup.put(**fields, content=tenant.text("Olá {{1}}"))
        tenant.whatsapp.put(**fields, body=tenant.text("Olá {{1}}"), language="pt_BR", template_id="tpl-1")
