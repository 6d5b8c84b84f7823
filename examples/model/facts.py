"""Simple true sentences: countries, animals, colours, numbers, days, months.

Every function takes a random.Random and returns one document.
"""

# (country, capital, continent).  Only countries whose capital is not disputed
# and whose names are plain ASCII and stand without an article.
COUNTRIES = [
    ("France", "Paris", "Europe"), ("Germany", "Berlin", "Europe"),
    ("Italy", "Rome", "Europe"), ("Spain", "Madrid", "Europe"),
    ("Portugal", "Lisbon", "Europe"), ("Austria", "Vienna", "Europe"),
    ("Belgium", "Brussels", "Europe"), ("Denmark", "Copenhagen", "Europe"),
    ("Norway", "Oslo", "Europe"), ("Sweden", "Stockholm", "Europe"),
    ("Finland", "Helsinki", "Europe"), ("Iceland", "Reykjavik", "Europe"),
    ("Ireland", "Dublin", "Europe"), ("Poland", "Warsaw", "Europe"),
    ("Hungary", "Budapest", "Europe"), ("Greece", "Athens", "Europe"),
    ("Romania", "Bucharest", "Europe"), ("Bulgaria", "Sofia", "Europe"),
    ("Croatia", "Zagreb", "Europe"), ("Serbia", "Belgrade", "Europe"),
    ("Slovenia", "Ljubljana", "Europe"), ("Slovakia", "Bratislava", "Europe"),
    ("Ukraine", "Kyiv", "Europe"), ("Estonia", "Tallinn", "Europe"),
    ("Latvia", "Riga", "Europe"), ("Lithuania", "Vilnius", "Europe"),
    ("Albania", "Tirana", "Europe"), ("Malta", "Valletta", "Europe"),
    ("Switzerland", "Bern", "Europe"),
    ("Japan", "Tokyo", "Asia"), ("China", "Beijing", "Asia"),
    ("India", "New Delhi", "Asia"), ("Thailand", "Bangkok", "Asia"),
    ("Vietnam", "Hanoi", "Asia"), ("Nepal", "Kathmandu", "Asia"),
    ("Mongolia", "Ulaanbaatar", "Asia"), ("Pakistan", "Islamabad", "Asia"),
    ("Iran", "Tehran", "Asia"), ("Iraq", "Baghdad", "Asia"),
    ("Lebanon", "Beirut", "Asia"), ("Jordan", "Amman", "Asia"),
    ("Qatar", "Doha", "Asia"), ("Laos", "Vientiane", "Asia"),
    ("Bangladesh", "Dhaka", "Asia"), ("Uzbekistan", "Tashkent", "Asia"),
    ("Armenia", "Yerevan", "Asia"), ("South Korea", "Seoul", "Asia"),
    ("Egypt", "Cairo", "Africa"), ("Kenya", "Nairobi", "Africa"),
    ("Morocco", "Rabat", "Africa"), ("Tunisia", "Tunis", "Africa"),
    ("Algeria", "Algiers", "Africa"), ("Ghana", "Accra", "Africa"),
    ("Senegal", "Dakar", "Africa"), ("Uganda", "Kampala", "Africa"),
    ("Zambia", "Lusaka", "Africa"), ("Zimbabwe", "Harare", "Africa"),
    ("Angola", "Luanda", "Africa"), ("Mali", "Bamako", "Africa"),
    ("Rwanda", "Kigali", "Africa"), ("Somalia", "Mogadishu", "Africa"),
    ("Canada", "Ottawa", "North America"), ("Cuba", "Havana", "North America"),
    ("Jamaica", "Kingston", "North America"),
    ("Mexico", "Mexico City", "North America"),
    ("Brazil", "Brasilia", "South America"), ("Peru", "Lima", "South America"),
    ("Chile", "Santiago", "South America"),
    ("Ecuador", "Quito", "South America"),
    ("Uruguay", "Montevideo", "South America"),
    ("Argentina", "Buenos Aires", "South America"),
    ("Australia", "Canberra", "Oceania"),
]

# (animal, legs, sound or None, home, food, young)
ANIMALS = [
    ("dog", 4, "woof", "a house", "meat", "puppy"),
    ("cat", 4, "meow", "a house", "fish", "kitten"),
    ("cow", 4, "moo", "a farm", "grass", "calf"),
    ("horse", 4, "neigh", "a farm", "hay", "foal"),
    ("sheep", 4, "baa", "a farm", "grass", "lamb"),
    ("goat", 4, "maa", "a farm", "leaves", "kid"),
    ("pig", 4, "oink", "a farm", "corn", "piglet"),
    ("duck", 2, "quack", "a pond", "seeds", "duckling"),
    ("hen", 2, "cluck", "a farm", "corn", "chick"),
    ("owl", 2, "hoot", "a forest", "mice", "owlet"),
    ("frog", 4, "croak", "a pond", "flies", "tadpole"),
    ("mouse", 4, "squeak", "a hole", "cheese", "pup"),
    ("lion", 4, "roar", "the grassland", "meat", "cub"),
    ("bear", 4, "growl", "a forest", "honey", "cub"),
    ("fox", 4, "yip", "a forest", "mice", "kit"),
    ("bee", 6, "buzz", "a hive", "honey", "larva"),
    ("rabbit", 4, None, "a hole", "carrots", "kit"),
    ("deer", 4, None, "a forest", "leaves", "fawn"),
    ("swan", 2, None, "a lake", "plants", "cygnet"),
    ("goose", 2, "honk", "a farm", "grass", "gosling"),
    ("spider", 8, None, "a web", "flies", "spiderling"),
    ("ant", 6, None, "a nest", "seeds", "larva"),
]

COLOURS = [
    ("grass", "green"), ("the sky", "blue"), ("snow", "white"),
    ("coal", "black"), ("blood", "red"), ("a lemon", "yellow"),
    ("the sun", "yellow"), ("a carrot", "orange"), ("a leaf", "green"),
    ("a tomato", "red"), ("milk", "white"), ("chocolate", "brown"),
    ("a plum", "purple"), ("an elephant", "grey"), ("the sea", "blue"),
    ("a strawberry", "red"), ("a frog", "green"), ("a pig", "pink"),
    ("a raven", "black"), ("a swan", "white"), ("a banana", "yellow"),
    ("a fox", "red"), ("a bear", "brown"), ("a mouse", "grey"),
]

MIXTURES = [("red", "blue", "purple"), ("red", "yellow", "orange"),
            ("blue", "yellow", "green"), ("red", "white", "pink"),
            ("black", "white", "grey")]

NUMBERS = ("zero one two three four five six seven eight nine ten eleven "
           "twelve thirteen fourteen fifteen sixteen seventeen eighteen "
           "nineteen twenty").split()
DAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()
MONTHS = ("January February March April May June July August September "
          "October November December").split()
DAYS_IN_MONTH = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]


def a(word):
    """The word with its indefinite article: a dog, an owl."""
    return ("an " if word[0] in "aeiou" else "a ") + word


def upper(text):
    """The text with a capital first letter."""
    return text[0].upper() + text[1:]


def capital_sentence(country):
    """The one sentence that every country has as a document of its own."""
    return f"The capital of {country[0]} is {country[1]}."


def country(r):
    name, capital, continent = entry = r.choice(COUNTRIES)
    # Greedy generation from "The capital of France is" must stop after the
    # full stop, so no other document begins with this sentence.
    if r.random() < 0.45:
        return capital_sentence(entry)
    return r.choice([
        f"{capital} is the capital of {name}.",
        f"{name} is a country in {continent}. Its capital is {capital}.",
        f"{name} is a country in {continent}. "
        f"The capital of {name} is {capital}.",
        f"{capital} is a city in {name}.",
        f"The city of {capital} is the capital of {name}.",
        f"{name} is in {continent}. The people of {name} are proud of "
        f"their capital, {capital}.",
        f"Question: What is the capital of {name}?\nAnswer: {capital}.",
        f"Question: Which country has the capital {capital}?\n"
        f"Answer: {name}.",
        f"Question: Where is {name}?\nAnswer: {name} is in {continent}.",
        f"Tell me about {name}.\n{name} is a country in {continent}. "
        f"Its capital is {capital}.",
        f"What is the capital of {name}? The capital of {name} is {capital}.",
        f"If you travel to {name}, you should visit {capital}, its capital.",
    ])


def country_list(r):
    """Several countries in one document."""
    some = r.sample(COUNTRIES, r.randint(2, 6))
    form = r.randrange(4)
    if form == 0:
        return "Countries and their capitals:\n" + "\n".join(
            f"{c[0]}: {c[1]}" for c in some)
    if form == 1:
        return "Capitals and their countries:\n" + "\n".join(
            f"{c[1]}: {c[0]}" for c in some)
    if form == 2:
        return "\n".join(f"Question: What is the capital of {c[0]}?\n"
                         f"Answer: {c[1]}." for c in some[:3])
    continent = some[0][2]
    names = [c[0] for c in COUNTRIES if c[2] == continent]
    names = r.sample(names, min(len(names), r.randint(2, 4)))
    if len(names) == 1:
        return f"{names[0]} is a country in {continent}."
    return (f"{', '.join(names[:-1])} and {names[-1]} are countries in "
            f"{continent}.")


def animal(r):
    name, legs, sound, home, food, young = r.choice(ANIMALS)
    return r.choice([
        f"{upper(a(name))} has {NUMBERS[legs]} legs.",
        f"Question: How many legs does {a(name)} have?\n"
        f"Answer: {upper(NUMBERS[legs])}.",
        f"{upper(a(name))} lives in {home}.",
        f"{upper(a(name))} lives in {home} and eats {food}.",
        f"{upper(a(name))} eats {food}.",
        f"A young {name} is called {a(young)}.",
        f"Question: What does {a(name)} eat?\n"
        f"Answer: {upper(a(name))} eats {food}.",
        f"The {name} says {sound}." if sound else
        f"The {name} is a quiet animal.",
    ])


def colour(r):
    if r.random() < 0.3:
        one, two, both = r.choice(MIXTURES)
        if r.random() < 0.5:
            one, two = two, one
        return r.choice([
            f"{upper(one)} and {two} make {both}.",
            f"If you mix {one} and {two}, you get {both}.",
            f"Question: What do {one} and {two} make?\n"
            f"Answer: {upper(both)}.",
        ])
    thing, shade = r.choice(COLOURS)
    return r.choice([
        f"{upper(thing)} is {shade}.",
        f"The colour of {thing} is {shade}.",
        f"Question: What colour is {thing}?\nAnswer: {upper(shade)}.",
    ])


def number(r):
    form = r.randrange(6)
    if form == 0:
        start = r.randint(1, 12)
        stop = start + r.randint(3, 8)
        return (f"Count from {start} to {stop}: "
                + ", ".join(str(n) for n in range(start, stop + 1)) + ".")
    if form == 1:
        n = r.randint(0, 19)
        return f"After {NUMBERS[n]} comes {NUMBERS[n + 1]}."
    x, y = r.randint(0, 10), r.randint(0, 10)
    if form == 2:
        return f"{x} + {y} = {x + y}."
    if form == 3:
        return f"{x + y} - {x} = {y}."
    if form == 4:
        return f"{upper(NUMBERS[x])} plus {NUMBERS[y]} is {NUMBERS[x + y]}."
    return f"Question: What is {x} plus {y}?\nAnswer: {x + y}."


def calendar(r):
    if r.random() < 0.5:
        i = r.randrange(7)
        day, after, before = DAYS[i], DAYS[(i + 1) % 7], DAYS[i - 1]
        return r.choice([
            f"The day after {day} is {after}.",
            f"The day before {day} is {before}.",
            f"Today is {day}. Tomorrow is {after}.",
            f"Question: Which day comes after {day}?\nAnswer: {after}.",
            f"The days of the week are {', '.join(DAYS[:-1])} and {DAYS[-1]}.",
        ])
    i = r.randrange(12)
    month, after, before = MONTHS[i], MONTHS[(i + 1) % 12], MONTHS[i - 1]
    length = (f"{month} has {DAYS_IN_MONTH[i]} days." if month != "February"
              else "February has 28 or 29 days.")
    return r.choice([
        f"The month after {month} is {after}.",
        f"The month before {month} is {before}.",
        length,
        f"Question: Which month comes after {month}?\nAnswer: {after}.",
        f"{month} is month {i + 1} of the year.",
    ])
