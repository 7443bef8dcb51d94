"""Spanish, French and German words for giving orders to tools and devices, and their forms, written by us.

The same kinds of words as `phrasebook.py` has for Portuguese. One line a meaning: the English words, then
each language's, without accents (German: ä as a, ß as ss), as the search sees words.
"""

from collections.abc import Iterator

LANGUAGES = ("es", "fr", "de")

VERBS = """
turn on switch | encender prender | allumer | anschalten einschalten anmachen
turn off switch | apagar | eteindre | ausschalten abschalten ausmachen
connect link | conectar vincular | connecter relier | verbinden verknupfen
disconnect | desconectar | deconnecter | trennen
activate enable | activar habilitar | activer | aktivieren
deactivate disable | desactivar deshabilitar | desactiver | deaktivieren
open | abrir | ouvrir | offnen aufmachen
close shut | cerrar | fermer | schliessen zumachen
lock block | bloquear | verrouiller bloquer | sperren verriegeln blockieren
unlock unblock | desbloquear | deverrouiller debloquer | entsperren entriegeln
increase raise up | aumentar subir | augmenter monter | erhohen
upload raise | subir cargar | televerser charger | hochladen
lower reduce decrease | bajar reducir disminuir | baisser reduire diminuer | senken reduzieren verringern
download | descargar bajar | telecharger | herunterladen runterladen
set adjust | ajustar fijar regular | regler ajuster | einstellen anpassen setzen
put place set | poner colocar meter | mettre placer poser | stellen legen setzen
change modify | cambiar modificar alterar | changer modifier | andern wechseln modifizieren
replace substitute | reemplazar sustituir | remplacer | ersetzen austauschen
stop | parar detener | arreter stopper | stoppen anhalten beenden
pause | pausar | | pausieren
resume continue | reanudar continuar seguir | reprendre continuer | fortsetzen weitermachen
restart reboot | reiniciar | redemarrer | neustarten
cancel | cancelar anular | annuler | abbrechen absagen stornieren kundigen
delete remove | borrar eliminar suprimir | supprimer effacer | loschen entfernen
remove take off | quitar sacar retirar | retirer enlever oter | entfernen wegnehmen
clean clear | limpiar vaciar | nettoyer vider | leeren reinigen saubern
create new | crear | creer | erstellen anlegen erzeugen
generate | generar | generer | generieren
add | agregar anadir sumar | ajouter | hinzufugen zufugen
insert | insertar | inserer | einfugen
join merge combine | combinar unir juntar fusionar | fusionner combiner joindre | zusammenfuhren kombinieren
note write down | anotar apuntar | noter | notieren aufschreiben
mark check | marcar | marquer cocher | markieren abhaken
complete finish | completar terminar acabar | terminer completer | abschliessen erledigen
complete finish | | finir achever | fertigstellen
schedule plan | agendar programar planificar | planifier programmer | planen ansetzen vereinbaren
postpone reschedule delay | aplazar posponer reprogramar | reporter decaler | verschieben vertagen
remind reminder | recordar acordar | rappeler | erinnern
remember memory store | recordar memorizar | memoriser retenir | merken
forget delete | olvidar | oublier | vergessen
notify alert tell | avisar notificar alertar | prevenir avertir notifier alerter | benachrichtigen warnen
announce broadcast | anunciar | annoncer | ankundigen
wake | despertar | reveiller | wecken
play | tocar reproducir | jouer lire | spielen abspielen
listen hear | escuchar oir | ecouter entendre | horen anhoren
mute silence | silenciar callar | | stummschalten
repeat | repetir | repeter | wiederholen
skip next | saltar | sauter passer | uberspringen
go back return | volver regresar | revenir retourner | zuruckkehren
revert roll back undo | revertir deshacer | defaire retablir | zurucksetzen ruckgangig
show display view | mostrar ensenar visualizar | montrer afficher | zeigen anzeigen
list | listar enumerar | lister enumerer | auflisten
read | leer | lire | lesen vorlesen
see view look | ver mirar | voir regarder | sehen schauen ansehen anschauen nachsehen
say tell | decir contar | dire raconter | sagen erzahlen
count | contar | compter | zahlen
query look up check | consultar | consulter interroger | abfragen nachschlagen
check verify | comprobar verificar revisar chequear | verifier controler | prufen uberprufen kontrollieren
find search | encontrar hallar localizar | trouver localiser | finden auffinden
search find | buscar | chercher rechercher | suchen durchsuchen
get obtain | obtener conseguir | obtenir recuperer | holen abrufen bekommen
bring fetch | traer | apporter ramener | bringen
take | tomar coger | prendre | nehmen
give | dar | donner | geben
assign | asignar | assigner attribuer affecter | zuweisen zuordnen
send | enviar mandar | envoyer expedier | senden schicken verschicken versenden
forward | reenviar | transferer | weiterleiten
share | compartir | partager | teilen freigeben
publish post | publicar postear | publier poster | veroffentlichen posten
write | escribir | ecrire | schreiben
draft write | redactar | rediger | entwerfen verfassen
edit | editar | editer | bearbeiten
update | actualizar | | aktualisieren
refresh update | refrescar | actualiser rafraichir | aktualisieren
update | | mettre | updaten
rename | renombrar | renommer | umbenennen
move | mover trasladar | deplacer bouger | verschieben bewegen
copy | copiar | copier | kopieren
duplicate clone | duplicar clonar | dupliquer cloner | duplizieren klonen
paste | pegar | coller | einfugen
save store | guardar almacenar salvar | enregistrer sauvegarder stocker | speichern sichern ablegen
record | grabar registrar | enregistrer | aufnehmen aufzeichnen
summarize summary | resumir | resumer | zusammenfassen
translate | traducir | traduire | ubersetzen
convert | convertir transformar | convertir transformer | umwandeln konvertieren umrechnen
calculate compute | calcular | calculer | berechnen ausrechnen
compare | comparar | comparer | vergleichen
book reserve | reservar | reserver | buchen reservieren
buy purchase | comprar | acheter | kaufen bestellen
order request ask | pedir encargar solicitar | commander demander | bestellen anfordern bitten
pay | pagar cobrar | payer regler | zahlen bezahlen
refund | reembolsar devolver | rembourser | erstatten zuruckerstatten
sell | vender | vendre | verkaufen
call phone | llamar telefonear | appeler telephoner | anrufen telefonieren
reply answer respond | responder contestar | repondre | antworten beantworten
ask | preguntar | demander poser | fragen
heat warm | calentar | chauffer rechauffer | heizen erwarmen
cool | enfriar refrescar | refroidir rafraichir | kuhlen
water irrigate | regar | arroser | giessen bewassern
run execute | ejecutar correr lanzar | executer lancer | ausfuhren laufen
start begin launch | iniciar empezar comenzar arrancar | demarrer commencer lancer | starten beginnen
kill terminate | matar | tuer | toten killen
install | instalar | installer | installieren
uninstall remove | desinstalar | desinstaller | deinstallieren
deploy | desplegar | deployer | ausrollen deployen
configure set | configurar | configurer parametrer | konfigurieren einrichten
test | probar | tester essayer | testen ausprobieren
fix repair | arreglar corregir reparar | reparer corriger | reparieren beheben korrigieren
analyze | analizar | analyser | analysieren auswerten
approve accept | aprobar aceptar | approuver accepter | genehmigen annehmen akzeptieren
reject decline | rechazar | refuser rejeter | ablehnen
archive | archivar | archiver | archivieren
sort order | ordenar clasificar | trier classer | sortieren ordnen
filter | filtrar | filtrer | filtern
extract | extraer | extraire | extrahieren auslesen
export | exportar | exporter | exportieren
import | importar | importer | importieren
attach | adjuntar | joindre attacher | anhangen
invite | invitar | inviter | einladen
draw | dibujar trazar | dessiner tracer | zeichnen
transcribe | transcribir | transcrire | transkribieren
subscribe | suscribir | abonner | abonnieren
follow | seguir | suivre | folgen verfolgen
happen occur | pasar ocurrir | passer | passieren
fail error | fallar | echouer planter | fehlschlagen scheitern
hide | ocultar esconder | masquer cacher | verbergen ausblenden verstecken
divide split | dividir separar | diviser separer | teilen aufteilen
need | necesitar | | brauchen benotigen
arrive | llegar | arriver | ankommen
rain | llover | pleuvoir | regnen
"""

OTHERS = """
light lamp | luz/luces lampara bombilla/s foco | lumiere/s lampe/s | licht/er lampe/n
switch | interruptor/es | interrupteur/s | schalter
socket outlet plug | enchufe/s | prise/s | steckdose/n
fan | ventilador/es | ventilateur/s | ventilator/en
blind cover | persiana/s | store/s volet/s | rollladen jalousie/n
curtain cover | cortina/s | rideau/x | vorhang vorhange
garage door | garaje cochera | garage | garage
door | puerta/s | porte/s | tur/en
window | ventana/s | fenetre/s | fenster
heating thermostat | calefaccion termostato | chauffage thermostat | heizung thermostat
temperature | temperatura/s | temperature/s | temperatur/en
humidity | humedad | humidite | luftfeuchtigkeit
brightness | brillo | luminosite | helligkeit
color | color/es | couleur/s | farbe/n
red | rojo/s roja/s | rouge/s | rot rote roten rotes
blue | azul/es | bleu/s bleue | blau blaue blauen
green | verde/s | vert/s verte | grun grune grunen
yellow | amarillo amarilla | jaune/s | gelb gelbe
white | blanco blanca | blanc blanche | weiss weisse
black | negro negra | noir/s noire | schwarz schwarze
television tv | televisor television tele | television tele | fernseher
speaker | altavoz altavoces | enceinte | lautsprecher
sound volume | sonido volumen | son volume | ton lautstarke
music song | musica | musique | musik
song track | cancion/es pista | chanson/s morceau | lied/er
movie film | pelicula/s | film/s | film/e
alarm | alarma/s despertador | alarme/s reveil | alarm wecker
timer | temporizador cronometro | minuteur chronometre | timer stoppuhr
reminder | recordatorio/s | rappel/s | erinnerung/en
time hour | hora/s | heure/s | uhrzeit uhr
hour | | | stunde/n
minute | minuto/s | minute/s | minute/n
second | segundo/s | seconde/s | sekunde/n
today | hoy | aujourd hui | heute
tomorrow | manana | demain | morgen
yesterday | ayer | hier | gestern
now | ahora | maintenant | jetzt gerade
date | fecha/s | date/s | datum
day | dia/s | jour/s journee | tag/e
week | semana/s | semaine/s | woche/n
month | mes/es | mois | monat/e
year | ano/s | annee/s an/s | jahr/e
weather time | tiempo | temps | wetter
weather climate | clima | meteo climat | klima
forecast weather | pronostico prevision | previsions prevision | vorhersage wettervorhersage
rain | lluvia | pluie | regen
snow | nieve | neige | schnee
wind | viento | vent | wind
time | | | zeit
list | lista/s listado | liste/s | liste/n
shopping | compras | courses achats | einkauf einkaufs einkaufe
task todo | tarea/s pendiente/s | tache/s | aufgabe/n
house home | casa hogar | maison | haus hause
bedroom room | dormitorio habitacion cuarto | chambre piece | schlafzimmer zimmer
living room | salon sala | salon | wohnzimmer
kitchen | cocina | cuisine | kuche
bathroom | bano | salle bain | badezimmer bad
office | oficina despacho | bureau/x | buro
garden | jardin | jardin | garten
battery | bateria/s pila/s | batterie/s pile/s | batterie/n akku
motion movement | movimiento | mouvement | bewegung
camera | camara/s | camera/s | kamera/s
state status | estado/s | etat/s statut/s | zustand status stand
open | abierto/s abierta/s | ouvert/s ouverte/s | offen offene offenen geoffnet
closed | cerrado/s cerrada/s | ferme/s fermee/s | geschlossen
on lit | encendido encendida/s | allume allumee | eingeschaltet
off | apagado apagada/s | eteint eteinte | aus ausgeschaltet
all | todo/s toda/s | tout tous toute/s | alle alles allen
next | siguiente/s proximo/s proxima/s | prochain/s prochaine/s | nachste nachster
next | | suivant suivante | nachsten nachstes
previous last | anterior/es pasado pasada | precedent precedente | vorherige vorherigen letzte
last latest recent | ultimo/s ultima/s | dernier/s derniere/s | letzte letzter letzten letztes neueste
recent latest | reciente/s | recent/s recente/s | neueste neuesten aktuelle
new | nuevo/s nueva/s | nouveau/x nouvelle/s | neu neue neuer neues neuen
old | viejo vieja antiguo antigua | vieux ancien ancienne | alt alte alten
current | actual/es | actuel actuelle/s | aktuell aktuelle aktuellen
free available | libre/s disponible/s | libre/s disponible/s | frei freie freien verfugbar
free slot gap | hueco/s | creneau/x | lucke termin
file | archivo/s fichero/s | fichier/s | datei/en
folder directory | carpeta/s directorio/s | dossier/s repertoire/s | ordner verzeichnis/se
content | contenido/s | contenu/s | inhalt/e
line row | linea/s | ligne/s | zeile/n
row | fila/s | ligne/s rangee | zeile/n reihe/n
column | columna/s | colonne/s | spalte/n
cell | celda/s | cellule/s | zelle/n
sheet | hoja/s | feuille/s | blatt
spreadsheet sheet | calculo planilla | tableur | tabellenkalkulation
user | usuario/s usuaria | utilisateur/s | benutzer nutzer
account | cuenta/s | compte/s | konto konten
password | contrasena/s clave | mot passe | passwort passworter kennwort
key | clave/s llave/s | cle/s clef | schlussel
screen | pantalla/s | ecran/s | bildschirm
screenshot capture | captura/s | capture/s | bildschirmfoto screenshot
phone mobile | movil celular telefono | telephone portable | handy telefon
phone number | telefono | numero | telefonnummer nummer
computer | ordenador computadora | ordinateur | computer rechner
process | proceso/s | processus | prozess/e
program | programa/s | programme/s logiciel | programm/e
printer | impresora | imprimante | drucker
mail email | correo/s mail | courriel/s mail/s courrier | mail/s mail post
attachment | adjunto/s | piece jointe | anhang anhange
inbox | bandeja | boite reception | posteingang
message | mensaje/s | message/s | nachricht/en
draft | borrador/es | brouillon/s | entwurf entwurfe
label tag | etiqueta/s | etiquette/s libelle | etikett/en label
meeting | reunion/es junta | reunion/s rendez | besprechung/en treffen sitzung
appointment event | cita/s | rendez vous | termin/e
event | evento/s | evenement/s | ereignis/se veranstaltung
calendar | calendario agenda | calendrier agenda | kalender
contact | contacto/s | contact/s | kontakt/e
invoice bill | factura/s | facture/s | rechnung/en
receipt | recibo/s | recu/s | quittung beleg/e
payment | pago/s | paiement/s | zahlung/en
order | pedido/s | commande/s | bestellung/en
customer client | cliente/s | client/s cliente | kunde/n
supplier vendor | proveedor/es | fournisseur/s | lieferant/en
product | producto/s | produit/s | produkt/e
coupon discount | cupon/es descuento/s | coupon/s remise/s reduction | gutschein/e rabatt/e
subscription | suscripcion/es | abonnement/s | abo abonnement/s
inventory stock | inventario existencias | inventaire stock | lager bestand
price | precio/s | prix cours | preis/e kurs
exchange rate currency | divisa/s cambio | devise/s change taux | wechselkurs wahrung/en
stock share | accion/es bolsa | action/s bourse | aktie/n aktien borse
money | dinero | argent | geld
deal business | negocio/s trato | affaire/s | geschaft deal
database | | | datenbank/en
base database | base | base | basis
data | datos | donnees | daten
table | tabla/s | table/s tableau/x | tabelle/n
query | consulta/s | requete/s | abfrage/n anfrage
record | registro/s | enregistrement/s | datensatz eintrag eintrage
report | informe/s reporte/s | rapport/s | bericht/e
chart graph | grafico/s grafica | graphique/s diagramme | diagramm/e grafik
image picture | imagen imagenes | image/s | bild/er
photo picture | foto/s | photo/s | foto/s
video | video/s | video/s | video/s
page | pagina/s | page/s | seite/n
site website | sitio web | site/s | webseite/n website
browser | navegador | navigateur | browser
bookmark favorite | marcador favorito/s | favori/s marque | lesezeichen favorit
network | red/es | reseau/x | netzwerk/e netz
server | servidor/es | serveur/s | server
ticket issue | incidencia/s | ticket/s | ticket/s vorgang
incident | incidente/s | incident/s | vorfall vorfalle storung
on call | guardia | astreinte garde | bereitschaft rufbereitschaft
alert | alerta/s | alerte/s | warnung/en alarm/e
flight | vuelo/s | vol/s | flug fluge
trip travel | viaje/s | voyage/s | reise/n
train | tren/es | train/s | zug zuge bahn
bus | autobus/es | bus | bus
car drive | coche auto carro | voiture/s | auto/s
walk foot | pie andando | pied marche | fuss
hotel | hotel/es | hotel/s | hotel/s
restaurant | restaurante/s | restaurant/s | restaurant/s
address | direccion/es | adresse/s | adresse/n
map | mapa/s | carte/s plan | karte/n
route directions | ruta/s | itineraire/s route | route/n weg
way path | camino | chemin | weg pfad
near nearby | cerca cercano/s cercana/s | pres proche/s | nahe
airport | aeropuerto | aeroport | flughafen
news | noticia/s | nouvelles actualites actualite | nachrichten neuigkeiten
question | pregunta/s | question/s | frage/n
answer reply | respuesta/s | reponse/s | antwort/en
summary | resumen | resume | zusammenfassung
repository | repositorio/s | depot/s | repository
branch | rama/s | branche/s | zweig/e branch
code | codigo | code | code
error | error/es fallo/s | erreur/s | fehler
bug error | fallo | bogue | bug
request | solicitud/es peticion/es | demande/s requete | anfrage/n antrag
version | version/es | version/s | version/en
deployment release | despliegue | deploiement | bereitstellung
log | registro/s bitacora | journal/x journaux | protokoll/e log
container | contenedor/es | conteneur/s | container
task job | trabajo/s | travail tache | arbeit auftrag
team | equipo/s | equipe/s | team mannschaft
colleague user | companero | collegue/s | kollege/n kollegin
boss manager | jefe jefa | chef patron | chef vorgesetzter
project | proyecto/s | projet/s | projekt/e
company | empresa/s | entreprise/s societe | firma firmen unternehmen
employee | empleado/s | employe/s | mitarbeiter
job position | empleo puesto | emploi poste | stelle job
word | palabra/s | mot/s | wort worter
text | texto/s | texte/s | text/e
paragraph | parrafo/s | paragraphe/s | absatz absatze
heading title | titulo/s encabezado | titre/s | uberschrift titel
footnote note | pie | bas | fussnote/n
note | nota/s apunte/s | note/s | notiz/en
comment | comentario/s | commentaire/s | kommentar/e
document | documento/s | document/s | dokument/e
slide | diapositiva/s | diapositive/s | folie/n
language | idioma/s lengua | langue/s | sprache/n
channel | canal/es | canal canaux chaine | kanal kanale
group | grupo/s | groupe/s | gruppe/n
thread conversation | hilo/s conversacion | fil conversation/s discussion | unterhaltung gesprach
conversation chat | conversacion charla | conversation | chat
card | tarjeta/s | carte/s | karte/n
board | tablero/s | tableau/x | brett board
folder project | | | mappe
number | numero/s | numero/s nombre | nummer/n zahl/en
name | nombre/s | nom/s | name/n
size | tamano | taille/s | grosse
memory | memoria | memoire | speicher gedachtnis
storage disk | almacenamiento disco | stockage disque | speicher festplatte
test | prueba/s | essai/s | test/s
change | cambio/s | changement/s modification/s | anderung/en
difference diff | diferencia/s | difference/s | unterschied/e
history | historial historia | historique | verlauf geschichte
setting configuration | ajuste/s configuracion | parametre/s reglage/s | einstellung/en
permission access | permiso/s acceso | permission/s autorisation acces | berechtigung/en zugriff
person people | persona/s gente | personne/s gens | person/en leute
place | lugar/es sitio | lieu/x endroit/s | ort/e
city | ciudad/es | ville/s | stadt stadte
morning | | matin | vormittag
evening night | noche | soir nuit | abend nacht
afternoon | tarde | apres | nachmittag
noon | mediodia | midi | mittag
monday | lunes | lundi | montag
tuesday | martes | mardi | dienstag
wednesday | miercoles | mercredi | mittwoch
thursday | jueves | jeudi | donnerstag
friday | viernes | vendredi | freitag
saturday | sabado | samedi | samstag
sunday | domingo | dimanche | sonntag
lunch meal | comida almuerzo | dejeuner repas | mittagessen essen
dinner | cena | diner | abendessen
doctor | medico | medecin docteur | arzt
how much | cuanto cuanta | combien | wieviel
how many | cuantos cuantas | combien | wieviele
who | quien/es | qui | wer wem wen
where | donde | ou | wo wohin
when | cuando | quand | wann
which what | cual/es | quel/s quelle/s | welche welcher welches welchen
read unread | leido/s leidos | lu/s | gelesen ungelesen
unread | leer | lus | ungelesene ungelesenen
done complete | hecho hecha | fait faite | erledigt fertig
down failed | caido caida | panne | ausgefallen kaputt
slow | lento lenta | lent lente | langsam
secure security | seguridad | securite | sicherheit
link url | enlace/s | lien/s | link/s
transcript | transcripcion | transcription | transkript abschrift
translation | traduccion | traduction | ubersetzung
search | busqueda/s | recherche/s | suche
recipe | receta/s | recette/s | rezept/e
game | juego/s | jeu/x | spiel/e
book | libro/s | livre/s | buch bucher
picture drawing | dibujo | dessin | zeichnung
deadline due | plazo vencimiento | echeance delai | frist fallig
priority urgent | urgente prioridad | urgent urgente priorite | dringend prioritat
"""

# Forms of verbs that do not follow the rules below, by infinitive: those said in orders and questions.
_SPANISH = {
    "poner": "pon pone ponga pongo ponme ponle ponlo puse puesto puesta",
    "hacer": "haz hace haga hago hizo hecho",
    "decir": "di dice diga digo dime dile dinos dicho",
    "ver": "ve vea veo visto vemos",
    "leer": "lee lea leo leeme leyo leido",
    "traer": "trae traiga traigo traeme",
    "dar": "da de doy dame dale danos dado",
    "obtener": "obten obtiene obtenga obtengo obtenido",
    "detener": "deten detiene detenga detengo detenido",
    "oir": "oye oiga oigo oido",
    "seguir": "sigue siga sigo seguido",
    "pedir": "pide pida pido pideme pedido",
    "repetir": "repite repita repito repetido",
    "conseguir": "consigue consiga consigo",
    "corregir": "corrige corrija corrijo corregido corrigelo",
    "convertir": "convierte convierta convierto convertido",
    "revertir": "revierte revierta revierto revertido",
    "posponer": "pospon pospone posponga pospuesto",
    "abrir": "abre abra abro abreme abierto",
    "escribir": "escribe escriba escribo escribeme escribele escrito",
    "transcribir": "transcribe transcriba transcrito",
    "traducir": "traduce traduzca traduzco traducido",
    "reproducir": "reproduce reproduzca reproducido",
    "reducir": "reduce reduzca reducido",
    "sustituir": "sustituye sustituya sustituido",
    "disminuir": "disminuye disminuya",
    "extraer": "extrae extraiga extraido",
    "volver": "vuelve vuelva vuelvo vuelto",
    "devolver": "devuelve devuelva devuelto",
    "mover": "mueve mueva muevo muevelo movido movida",
    "llover": "llueve llovera lloviendo",
    "deshacer": "deshaz deshace deshaga deshecho",
}
_SPANISH_STEMS = {
    "encontrar": "encuentr",
    "mostrar": "muestr",
    "contar": "cuent",
    "recordar": "recuerd",
    "acordar": "acuerd",
    "probar": "prueb",
    "comprobar": "comprueb",
    "aprobar": "aprueb",
    "cerrar": "cierr",
    "despertar": "despiert",
    "empezar": "empiez",
    "comenzar": "comienz",
    "calentar": "calient",
    "desplegar": "despliegu",
    "colgar": "cuelgu",
}
_FRENCH = {
    "mettre": "mets met mettez mettons mis mise",
    "ouvrir": "ouvre ouvres ouvrez ouvert ouverte",
    "lire": "lis lit lisez lu lue",
    "dire": "dis dit dites",
    "ecrire": "ecris ecrit ecrivez ecrite",
    "transcrire": "transcris transcrit transcrivez",
    "voir": "vois voit voyez vu",
    "prendre": "prends prend prenez pris prise",
    "reprendre": "reprends reprend reprenez repris",
    "entendre": "entends entend entendu",
    "vendre": "vends vend vendez vendu vendue",
    "defaire": "defais defait defaites",
    "repondre": "reponds repond repondez repondu",
    "joindre": "joins joint joignez jointe",
    "traduire": "traduis traduit traduisez traduite",
    "reduire": "reduis reduit reduisez reduite",
    "eteindre": "eteins eteint eteignez eteinte",
    "obtenir": "obtiens obtient obtenez obtenu",
    "retenir": "retiens retient retenez retenu",
    "prevenir": "previens previent prevenez prevenu",
    "revenir": "reviens revient revenez",
    "suivre": "suis suit suivez suivi",
    "extraire": "extrais extrait extrayez",
    "envoyer": "envoie envoies envoyez envoye envoyee envois",
    "payer": "paie paye payez",
    "essayer": "essaie essayez essaye",
    "appeler": "appelle appelles appelez appele",
    "rappeler": "rappelle rappelles rappelez",
    "pleuvoir": "pleut pleuvra pleuvoir",
}
_GERMAN = {
    "lesen": "lies liest lese gelesen las",
    "vorlesen": "vorgelesen",
    "sehen": "sieh sieht sehe gesehen",
    "ansehen": "angesehen",
    "geben": "gib gibt gebe gegeben",
    "freigeben": "freigegeben",
    "nehmen": "nimm nimmt nehme genommen",
    "finden": "finde findet fand gefunden",
    "auffinden": "aufgefunden",
    "schreiben": "schreib schreibe schreibt schrieb geschrieben",
    "aufschreiben": "aufgeschrieben",
    "senden": "sende sendet gesendet gesandt",
    "versenden": "versende versendet",
    "laufen": "laufe lauft lief gelaufen",
    "abbrechen": "abgebrochen bricht",
    "anrufen": "angerufen ruf rufe",
    "verbinden": "verbinde verbindet verbunden",
    "trennen": "trenne trennt getrennt",
    "schliessen": "schliess schliesse schliesst geschlossen",
    "abschliessen": "abgeschlossen",
    "verschieben": "verschieb verschiebe verschiebt verschoben",
    "entwerfen": "entwirf entwerfe entworfen",
    "vergessen": "vergiss vergesse",
    "vergleichen": "vergleich vergleiche vergleicht verglichen",
    "hochladen": "hochgeladen",
    "herunterladen": "heruntergeladen",
    "runterladen": "runtergeladen",
    "einladen": "eingeladen",
    "bringen": "bring bringe bringt gebracht",
    "fehlschlagen": "fehlgeschlagen schlagt",
    "beginnen": "beginn beginnt begonnen",
    "anhalten": "angehalten",
    "bitten": "bitte gebeten",
    "umbenennen": "umbenannt benenne",
    "aufnehmen": "aufgenommen",
    "annehmen": "angenommen",
    "zuweisen": "zugewiesen weise",
    "ankommen": "angekommen",
    "giessen": "giess giesse gegossen",
    "erhohen": "erhohe erhoht",
}
_PREFIXES = (
    *("zusammen", "zuruck", "herunter", "runter", "hinzu", "fertig", "vor", "weiter", "stumm", "neu"),
    *("hoch", "fort", "aus", "auf", "ein", "ent", "ver", "be", "er", "um", "uber", "ab", "an", "zu", "nach"),
)
_TOGETHER = ("ent", "ver", "be", "er", "uber")
"""Prefixes that stay at the verb and take no `ge`."""
_CLITICS = ("me", "lo", "la", "le", "nos", "los", "las", "melo")


def entries(language: str) -> dict[str, list[str]]:
    """Return the words of a language, without accents, with their English words, the commonest first."""
    column = 1 + LANGUAGES.index(language)
    found: dict[str, list[str]] = {}
    for table, inflected in ((OTHERS, _endings), (VERBS, _FORMS[language])):
        for english, words in _lines(table, column):
            for word in words:
                for form in inflected(word):
                    known = found.setdefault(form, [])
                    known += [rendering for rendering in english if rendering not in known]
    return found


def _lines(table: str, column: int) -> Iterator[tuple[list[str], list[str]]]:
    for line in table.strip().splitlines():
        cells = [cell.split() for cell in line.split("|")]
        yield cells[0], cells[column]


def _endings(word: str) -> Iterator[str]:
    """`luz/luces` is two words; after a slash of one to three letters stands an ending (`archivo/s`)."""
    first, *more = word.split("/")
    yield first
    yield from (each if len(each) > 3 and each[:2] == first[:2] else first + each for each in more)


def _spanish(infinitive: str) -> Iterator[str]:
    stem, ending = infinitive[:-2], infinitive[-2:]
    yield infinitive
    yield from (infinitive + clitic for clitic in _CLITICS)
    if infinitive in _SPANISH:
        yield from _SPANISH[infinitive].split()
        return
    strong = _SPANISH_STEMS.get(infinitive, stem)
    orders = [strong + ("a" if ending == "ar" else "e")]
    soft = _softened(strong) if ending == "ar" else strong
    orders.append(soft + ("e" if ending == "ar" else "a"))
    for order in orders:
        yield order
        yield from (order + clitic for clitic in _CLITICS)
    rest = (
        "o as an amos aste aron ado ada ados adas ando are"
        if ending == "ar"
        else ("o es en imos iste ieron ido ida idos idas iendo ire")
    )
    yield from ((strong if last in ("o", "as", "an", "es", "en") else stem) + last for last in rest.split())


def _softened(stem: str) -> str:
    for old, new in (("gu", "gu"), ("c", "qu"), ("g", "gu"), ("z", "c")):
        if stem.endswith(old):
            return stem[: -len(old)] + new
    return stem


def _french(infinitive: str) -> Iterator[str]:
    yield infinitive
    if infinitive in _FRENCH:
        yield from _FRENCH[infinitive].split()
    elif infinitive.endswith("er"):
        stem = infinitive[:-2]
        yield from (stem + last for last in ("e", "es", "ez", "ee", "ees", "ent", "ant", "ons", "ai", "era"))
        if stem.endswith("g"):
            yield f"{stem}eons"
    elif infinitive.endswith("ir"):
        yield from (infinitive[:-2] + last for last in ("is", "it", "issez", "i", "ie", "issent"))


def _german(infinitive: str) -> Iterator[str]:
    yield infinitive
    yield from _GERMAN.get(infinitive, "").split()
    stem = infinitive[:-2] if infinitive.endswith("en") else infinitive[:-1]
    prefix = next((each for each in _PREFIXES if stem.startswith(each) and len(stem) > len(each) + 2), "")
    if prefix and prefix not in _TOGETHER:
        verb = stem[len(prefix) :]
        yield from (f"{prefix}zu{infinitive[len(prefix) :]}", f"{prefix}ge{verb}t", prefix + verb + "t")
        return
    yield from (stem, f"{stem}e", f"{stem}t", f"{stem}st", f"{stem}te", f"{stem}et")
    if not stem.endswith("ier") and not prefix:
        yield f"ge{stem}t"


_FORMS = {"es": _spanish, "fr": _french, "de": _german}
