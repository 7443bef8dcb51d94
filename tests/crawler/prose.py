"""Texts in twelve languages, from which pages with known content are made. The same seed gives the same text."""

import random

SENTENCES: dict[str, list[str]] = {
    "en": [
        "The old bridge over the river was closed for repairs after the spring floods of {n}.",
        "Engineers found {n} cracks in the northern pillar, most of them no wider than a hair.",
        "Nobody in the village expected the work to take longer than a summer, yet it did.",
        "Farmers on the far bank now drive {n} kilometres further to bring milk to the dairy.",
        "The council argued for months about who should pay, and in the end everybody did.",
        "A ferry, borrowed from a museum, carries schoolchildren across twice a day.",
        "Its captain, who is {n} years old, says that he has never been so popular.",
        "When the bridge opens again, he wants to keep the boat and rename it.",
        "Old photographs show that the first crossing stood a little further upstream.",
        "Measurements taken every hour show how the stone moves when the sun reaches it.",
        "The report runs to {n} pages and recommends a lighter deck made of wood.",
        "Visitors who came for the detour stayed for the bakery, which sells out by nine.",
    ],
    "pt": [
        "A ponte antiga sobre o rio foi fechada para obras depois das cheias de {n}.",
        "Os engenheiros encontraram {n} fissuras no pilar norte, quase todas muito finas.",
        "Ninguém na aldeia esperava que a obra durasse mais do que um verão, mas durou.",
        "Os agricultores da outra margem fazem agora mais {n} quilómetros até à leitaria.",
        "A câmara discutiu durante meses quem deveria pagar e, no fim, pagaram todos.",
        "Um barco emprestado por um museu leva as crianças à escola duas vezes por dia.",
        "O capitão, que tem {n} anos, diz que nunca foi tão popular na vida.",
        "Quando a ponte reabrir, ele quer ficar com o barco e dar-lhe outro nome.",
        "Fotografias antigas mostram que a primeira travessia ficava um pouco acima.",
        "O relatório tem {n} páginas e recomenda um tabuleiro mais leve, de madeira.",
    ],
    "de": [
        "Die alte Brücke über den Fluss wurde nach dem Hochwasser von {n} gesperrt.",
        "Ingenieure fanden {n} Risse im nördlichen Pfeiler, die meisten davon haarfein.",
        "Niemand im Dorf hätte gedacht, dass die Arbeiten länger als einen Sommer dauern.",
        "Bauern vom anderen Ufer fahren jetzt {n} Kilometer weiter bis zur Molkerei.",
        "Der Gemeinderat stritt monatelang darüber, wer zahlen soll, am Ende zahlten alle.",
        "Eine Fähre aus dem Museum bringt die Schulkinder zweimal am Tag hinüber.",
        "Ihr Kapitän ist {n} Jahre alt und sagt, er sei noch nie so beliebt gewesen.",
        "Alte Fotografien zeigen, dass der erste Übergang weiter flussaufwärts lag.",
        "Der Bericht hat {n} Seiten und empfiehlt eine leichtere Fahrbahn aus Holz.",
    ],
    "fr": [
        "Le vieux pont sur la rivière a été fermé après les crues du printemps {n}.",
        "Les ingénieurs ont trouvé {n} fissures dans la pile nord, presque toutes très fines.",
        "Personne au village ne pensait que les travaux dureraient plus d'un été.",
        "Les agriculteurs de l'autre rive font désormais {n} kilomètres de plus.",
        "Le conseil a débattu pendant des mois pour savoir qui devait payer.",
        "Un bac prêté par un musée emmène les écoliers deux fois par jour.",
        "Son capitaine, âgé de {n} ans, dit n'avoir jamais été aussi populaire.",
        "De vieilles photographies montrent que le premier passage était plus en amont.",
    ],
    "es": [
        "El viejo puente sobre el río se cerró tras las crecidas de la primavera de {n}.",
        "Los ingenieros hallaron {n} grietas en el pilar norte, casi todas muy finas.",
        "Nadie en el pueblo esperaba que las obras duraran más de un verano.",
        "Los agricultores de la otra orilla recorren ahora {n} kilómetros más.",
        "El ayuntamiento discutió durante meses quién debía pagar la reparación.",
        "Una barca prestada por un museo lleva a los niños a la escuela cada día.",
        "Su capitán, que tiene {n} años, dice que nunca había sido tan popular.",
    ],
    "ru": [
        "Старый мост через реку закрыли на ремонт после весеннего паводка {n} года.",
        "Инженеры нашли {n} трещин в северной опоре, почти все они очень тонкие.",
        "Никто в деревне не думал, что работы продлятся дольше одного лета.",
        "Фермеры с другого берега теперь ездят на {n} километров дальше.",
        "Совет несколько месяцев спорил о том, кто должен платить за ремонт.",
        "Паром, взятый в музее, дважды в день перевозит школьников через реку.",
        "Его капитану {n} лет, и он говорит, что никогда не был так популярен.",
    ],
    "el": [
        "Η παλιά γέφυρα πάνω από το ποτάμι έκλεισε μετά τις πλημμύρες του {n}.",
        "Οι μηχανικοί βρήκαν {n} ρωγμές στη βόρεια κολόνα, σχεδόν όλες πολύ λεπτές.",
        "Κανείς στο χωριό δεν περίμενε ότι τα έργα θα κρατούσαν τόσο πολύ.",
        "Οι αγρότες από την απέναντι όχθη κάνουν τώρα {n} χιλιόμετρα παραπάνω.",
        "Ένα πορθμείο από το μουσείο μεταφέρει τα παιδιά δύο φορές την ημέρα.",
    ],
    "zh": [
        "{n}年春天的洪水过后，河上的老桥因维修而关闭。",
        "工程师在北侧桥墩上发现了{n}条裂缝，大多数细如发丝。",
        "村里没有人想到工程会持续超过一个夏天，但事实就是如此。",
        "对岸的农民现在要多开{n}公里才能把牛奶送到乳品厂。",
        "议会为了谁来付钱争论了好几个月，最后大家一起承担。",
        "一艘从博物馆借来的渡船每天两次接送学生过河。",
        "船长今年{n}岁，他说自己从来没有这么受欢迎过。",
        "老照片显示，最早的渡口位于上游不远的地方。",
    ],
    "ja": [
        "川に架かる古い橋は、{n}年春の洪水のあと修理のために閉鎖された。",
        "技術者たちは北側の橋脚に{n}本のひびを見つけたが、ほとんどは髪の毛ほどの細さだった。",
        "村の誰も、工事が一夏より長く続くとは思っていなかった。",
        "対岸の農家は今、牛乳を届けるために{n}キロ余計に走っている。",
        "議会は誰が費用を払うべきかについて何か月も議論した。",
        "博物館から借りた渡し船が、一日に二回子どもたちを運んでいる。",
    ],
    "ko": [
        "강 위의 오래된 다리는 {n}년 봄 홍수 이후 수리를 위해 폐쇄되었다.",
        "기술자들은 북쪽 교각에서 {n}개의 균열을 발견했는데 대부분 매우 가늘었다.",
        "마을의 누구도 공사가 한여름보다 오래 걸릴 것이라고 예상하지 못했다.",
        "강 건너편 농부들은 이제 우유를 나르기 위해 {n}킬로미터를 더 달린다.",
        "박물관에서 빌린 나룻배가 하루에 두 번 학생들을 실어 나른다.",
    ],
    "ar": [
        "أُغلق الجسر القديم فوق النهر للإصلاح بعد فيضانات ربيع عام {n}.",
        "وجد المهندسون {n} شقًا في الدعامة الشمالية، معظمها دقيق للغاية.",
        "لم يتوقع أحد في القرية أن يستمر العمل أكثر من صيف واحد.",
        "يقطع المزارعون في الضفة الأخرى الآن {n} كيلومترًا إضافيًا.",
        "تنقل عبّارة مستعارة من المتحف التلاميذ مرتين في اليوم.",
    ],
    "hi": [
        "{n} की बाढ़ के बाद नदी पर बना पुराना पुल मरम्मत के लिए बंद कर दिया गया।",
        "इंजीनियरों को उत्तरी खंभे में {n} दरारें मिलीं, जिनमें से अधिकांश बहुत पतली थीं।",
        "गाँव में किसी ने नहीं सोचा था कि काम एक गर्मी से ज़्यादा चलेगा।",
        "दूसरे किनारे के किसान अब दूध पहुँचाने के लिए {n} किलोमीटर और चलते हैं।",
        "संग्रहालय से उधार ली गई नाव दिन में दो बार बच्चों को पार ले जाती है।",
    ],
}
LANGUAGES = tuple(SENTENCES)


class Prose:
    """Sentences of one language in an order that the seed decides, with numbers that make each one its own."""

    def __init__(self, language: str, seed: int) -> None:
        self.language = language
        self._random = random.Random(f"{language}/{seed}")

    def sentence(self) -> str:
        return self._random.choice(SENTENCES[self.language]).format(n=self._random.randint(12, 1999))

    def paragraph(self, sentences: int = 4) -> str:
        joint = "" if self.language in ("zh", "ja") else " "
        return joint.join(self.sentence() for _ in range(sentences))

    def paragraphs(self, count: int, sentences: int = 4) -> list[str]:
        return [self.paragraph(sentences) for _ in range(count)]

    def title(self) -> str:
        words = self.sentence().split()
        return " ".join(words[:7]).rstrip(".,;") if len(words) > 3 else self.sentence()[:12]

    def number(self, most: int = 10_000) -> int:
        return self._random.randint(1, most)
