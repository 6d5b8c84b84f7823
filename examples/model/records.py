"""Small JSON records, all spaced as Python's json.dumps spaces them."""

import json

from facts import ANIMALS, COUNTRIES, a, upper
from stories import BOYS, COLOUR_WORDS, GIRLS

JOBS = ("baker teacher doctor farmer painter sailor singer gardener "
        "carpenter nurse").split()


def person(r):
    """A record and the sentence that says the same."""
    name = r.choice(GIRLS + BOYS)
    record = {"name": name}
    sentence = name
    if r.random() < 0.5:
        record["age"] = r.randint(3, 12)
        sentence += f" is {record['age']} years old"
    else:
        record["job"] = r.choice(JOBS)
        sentence += f" is {a(record['job'])}"
    if r.random() < 0.7:
        record["city"] = r.choice(COUNTRIES)[1]
        sentence += f" and lives in {record['city']}"
    return "person", record, sentence + "."


def country(r):
    name, capital, continent = r.choice(COUNTRIES)
    record = {"country": name, "capital": capital, "continent": continent}
    return ("country", record,
            f"{name} is a country in {continent}. Its capital is {capital}.")


def animal(r):
    name, legs, sound, _, food, _ = r.choice(ANIMALS)
    record = {"animal": name, "legs": legs, "food": food}
    if sound:
        record["sound"] = sound
    return ("animal", record,
            f"{upper(a(name))} has {legs} legs and eats {food}.")


def thing(r):
    what = r.choice("ball hat boat kite cup book bag drum".split())
    record = {"thing": what, "colour": r.choice(COLOUR_WORDS),
              "count": r.randint(1, 9), "new": r.random() < 0.5}
    return ("thing", record,
            f"The {what} is {record['colour']}.")


def document(r):
    """A record alone, after a heading, after its sentence, or in a list."""
    make = r.choice([person, person, country, country, animal, thing])
    kind, record, sentence = make(r)
    form = r.randrange(5)
    if form == 0:
        return f"{upper(a(kind))} as JSON: " + json.dumps(record)
    if form == 1 and make is not thing:
        # The colour of a thing does not tell the rest of its record.
        return f"{sentence} As JSON: " + json.dumps(record)
    if form == 2:
        return json.dumps([make(r)[1] for _ in range(r.randint(2, 3))])
    return json.dumps(record)
