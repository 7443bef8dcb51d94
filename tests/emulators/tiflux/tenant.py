"""A tenant: one organisation behind one API key, with everything that it has at TiFlux."""

from .shelves import Json, Shelf


class Tenant:
    def __init__(self, key: str, seed: int, *, enable_mcp: bool = True, admin: bool = True) -> None:
        self.key = key
        self.seed = seed
        self.enable_mcp = enable_mcp
        """What `/users/me` says; the endpoint in front turns others away."""
        self.admin = admin

        self.departments = Shelf("Department", 11)
        self.technical_groups = Shelf("Technical group", 31)
        self.desks = Shelf("Desk", 51)
        self.stages = Shelf("Stage", 101)
        self.priorities = Shelf("Priority", 201)
        self.catalogs = Shelf("Services catalog", 301)
        self.areas = Shelf("Services catalog area", 401)
        self.items = Shelf("Services catalog item", 501)
        self.entities = Shelf("Entity", 601)
        self.entity_fields = Shelf("Entity field", 651)
        self.options = Shelf("Entity field option", 701)
        self.users = Shelf("User", 801)
        self.clients = Shelf("Client", 1001)
        self.addresses = Shelf("Address", 1201)
        self.contacts = Shelf("Contact", 1401)
        self.requestors = Shelf("Requestor", 1601)
        self.permissions = Shelf("E-mail permission", 1801)
        self.tickets = Shelf("Ticket", 1, "ticket_number")
        self.answers = Shelf("Answer", 3001)
        self.communications = Shelf("Internal communication", 4001)
        self.files = Shelf("File", 5001)
        self.answer_files = Shelf("File", 5501)
        self.appointments = Shelf("Appointment", 6001)
        self.pre_appointments = Shelf("Pre-appointment", 6401)
        self.checklists = Shelf("Checklist", 6601)
        self.histories = Shelf("History", 7001)
        self.chats = Shelf("Chat", 8001)
        self.messages = Shelf("Message", 8501)
        self.contracts = Shelf("Contract", 9001)
        self.equipments = Shelf("Equipment", 9201)
        self.equipment_groups = Shelf("Equipment group", 9401)
        self.equipment_types = Shelf("Equipment type", 9501)
        self.softwares = Shelf("Software", 9601)
        self.folders = Shelf("Knowledge folder", 9701)
        self.knowledges = Shelf("Knowledge", 9801)
        self.pre_tickets = Shelf("Pre-ticket", 10001)
        self.gupshup = Shelf("Template", 10201)
        self.whatsapp = Shelf("Template", 10301)
        self.billings = Shelf("Billing", 10501, "billing_id")
        self.shifts = Shelf("Shift", 10601)
        self.riders = Shelf("Contract rider", 10701)
        self.loose_services = Shelf("Loose service", 10801)

    @property
    def mark(self) -> str:
        """In every text of the tenant and in none of another's."""
        return f"t{self.seed:04d}"

    def text(self, words: str) -> str:
        return f"{words} {self.mark}"

    def email(self, name: str) -> str:
        return f"{name}.{self.mark}@example.com"

    @property
    def me(self) -> Json:
        """Whose key it is."""
        return self.users.first()
