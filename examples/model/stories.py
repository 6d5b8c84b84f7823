"""Short stories in plain words.

A story is a plot (a function below) told about a hero, a place, a thing and
a helper.  Each sentence is chosen from several that fit the plot at that
point, so the stories are many and each still makes sense.
"""

GIRLS = "Anna Lily Mia Rosa Emma Nora Ella Lucy Zoe Ida".split()
BOYS = "Tom Ben Max Leo Sam Jack Noah Finn Oscar Paul".split()
KINDS = ("rabbit fox bear mouse cat dog duck hedgehog squirrel frog goat "
         "turtle").split()
COLOUR_WORDS = "red blue green yellow white black brown purple".split()

OPENINGS = ["Once upon a time,", "Once upon a time", "One day,",
            "Long ago,", "There once was", "Once there was"]
MORNINGS = ["One day,", "One morning,", "One sunny day,", "One afternoon,",
            "One cold morning,", "On a bright morning,", "One summer day,",
            "On a windy day,"]
ADJECTIVES = "little small young kind brave happy clever curious".split()
HOMES = ["in a small village", "near the sea", "in a big forest",
         "by the river", "on a green hill", "in a quiet town", "on a farm",
         "at the edge of a forest", "in a little house", "far away"]


class Hero:
    """Somebody in a story: a name and the words that stand for it."""

    def __init__(self, r, other=None):
        while True:
            girl = r.random() < 0.5
            self.name = r.choice(GIRLS if girl else BOYS)
            child = r.random() < 0.4
            self.kind = (("girl" if girl else "boy") if child
                         else r.choice(KINDS))
            if not other or (self.name != other.name
                             and self.kind != other.kind):
                break
        self.he, self.him, self.his = (("she", "her", "her") if girl
                                       else ("he", "him", "his"))
        self.He = self.he.capitalize()
        self.His = self.his.capitalize()
        # Children are not "the girl" or "an old boy" in a story.
        self.known_as = (f"little {self.name}" if child
                         else f"{self.name} the {self.kind}")
        self.old = f"a clever {self.kind}" if child else f"an old {self.kind}"
        # When the story's events begin; an opening may say something else.
        self.when = r.choice(MORNINGS)


def opening(r, hero):
    who = f"a {r.choice(ADJECTIVES)} {hero.kind} named {hero.name}"
    start = r.choice(OPENINGS)
    if start == "One day,":
        hero.when = r.choice(["After breakfast,", "In the afternoon,",
                              "At noon,"])
        return f"{start} {who} woke up " + r.choice(
            ["early.", "and felt happy.", "and looked out of the window."])
    if start.endswith("was"):
        return f"{start} {who}."
    if r.random() < 0.5:
        return f"{start} there was {who}."
    return f"{start} {who} lived {r.choice(HOMES)}."


def ending(r, hero, friend):
    return r.choice([
        "They were happy for the rest of the day.",
        "From that day on, they were the best of friends.",
        "They are still friends today.",
        "And they never forgot that day.",
        "Then they had soup for supper.",
        "It was the best day of the year.",
        f"That night, {hero.name} slept very well.",
        f"{hero.name} and {friend.name} smiled.",
        "The end.",
    ])


def lost_thing(r, hero, friend):
    thing = r.choice([f"{r.choice(COLOUR_WORDS)} {t}" for t in
                      ("ball", "hat", "boat", "kite", "cup", "book", "bag")])
    place = r.choice(["the park", "the garden", "the forest", "the river",
                      "the beach", "the market", "the old mill"])
    found = r.choice(["under a bush", "behind a big stone", "next to a tree",
                      "in the long grass", "under a bench",
                      "behind the wall"])
    return [
        r.choice([f"{hero.He} had a {thing} and loved it very much.",
                  f"{hero.His} mother gave {hero.him} a {thing}.",
                  f"{hero.He} took {hero.his} {thing} everywhere."]),
        f"{hero.when} {hero.name} went to {place} to play.",
        r.choice([f"But when it was time to go home, the {thing} was gone.",
                  f"Suddenly {hero.he} saw that the {thing} was gone.",
                  f"After a while {hero.he} could not find the {thing}."]),
        r.choice([f"{hero.name} looked here and there, but could not see it.",
                  f"{hero.name} was very sad and began to cry.",
                  f'"Oh no! Where is my {thing.split()[1]}?" '
                  f'cried {hero.name}.']),
        r.choice([f"A {friend.kind} named {friend.name} came by.",
                  f"{friend.known_as} heard {hero.him}."]),
        r.choice([f'"Do not worry, I will help you," said {friend.name}.',
                  f'"Let us look for it together," said {friend.name}.',
                  f'"What is wrong?" asked {friend.name}. '
                  f'"I lost my {thing}," said {hero.name}.']),
        r.choice([f"They looked all over, and there it was, {found}.",
                  f"Soon {friend.name} found the {thing} {found}.",
                  f"At last they found it {found}."]),
        r.choice([f'"Thank you so much!" said {hero.name}.',
                  f"{hero.name} gave {friend.name} a big hug.",
                  f"{hero.name} smiled and let {friend.name} play with it."]),
    ]


def stuck_friend(r, hero, friend):
    where, out, far = r.choice([
        ("in a tall tree", "down", "high"), ("on a high roof", "down", "high"),
        ("on a big rock", "down", "high"), ("in a deep hole", "out", "deep"),
        ("in an old well", "out", "deep"),
        ("at the bottom of a pit", "out", "deep")])
    tool = r.choice(["rope", "ladder", "long stick"])
    return [
        f"{hero.when} {hero.name} was walking "
        + r.choice(["in the forest.", "to school.", "home.",
                    "to the market.", "along the road."]),
        r.choice([f'{hero.He} heard a voice. "Help! Help!"',
                  f"{hero.He} heard someone cry for help.",
                  f"There was a strange sound, and {hero.he} stopped."]),
        f"It was {friend.name}, a {friend.kind}, who was stuck {where}.",
        r.choice([f'"I cannot get {out}," said {friend.name}.',
                  f"{friend.name} was cold and afraid.",
                  f'"Please help me," said {friend.name}.']),
        r.choice([f"{hero.name} tried to reach {friend.him}, but it was too "
                  f"{far}.",
                  f'"Stay there, I will come back," said {hero.name}.',
                  f"{hero.name} thought for a moment."]),
        r.choice([f"Then {hero.he} ran home and got a {tool}.",
                  f"Then {hero.he} saw a {tool} by the road.",
                  f"A farmer came by and gave {hero.him} a {tool}."]),
        r.choice([f"With the {tool}, {friend.name} came {out} safely.",
                  f"{friend.name} held the {tool}, and soon "
                  f"{friend.he} was free."]),
        r.choice([f'"You saved me!" said {friend.name}.',
                  f'"Thank you, {hero.name}," said {friend.name}.',
                  f"{friend.name} jumped for joy."]),
    ]


def shared_food(r, hero, friend):
    food = r.choice(["an apple", "a cake", "some bread", "a pie",
                     "some cheese", "a pear", "some soup", "some cookies"])
    it = food.split()[1]
    return [
        f"{hero.when} {hero.name}'s "
        + r.choice(["mother", "father", "grandmother"])
        + f" gave {hero.him} {food}.",
        r.choice([f"{hero.He} sat down under a tree to eat.",
                  f"{hero.He} went to the park and found a bench.",
                  f"{hero.He} was very hungry."]),
        r.choice([f"Then a {friend.kind} named {friend.name} came by.",
                  f"Then {hero.he} met {friend.name}, a {friend.kind}."]),
        r.choice([f'"I am so hungry," said {friend.name}.',
                  f"{friend.name} had nothing to eat.",
                  f"{friend.name} looked at the {it} and said nothing."]),
        r.choice([f"{hero.name} did not want to share at first.",
                  f"{hero.name} felt sorry for {friend.him}.",
                  f"{hero.name} thought about it."]),
        r.choice([f'"Here, you can have half of my {it}," said {hero.name}.',
                  f"Then {hero.he} gave {friend.name} half of the {it}.",
                  f'"Let us share," said {hero.name}.']),
        r.choice([f'"That is very kind of you," said {friend.name}.',
                  "They ate together and talked about many things.",
                  f"{friend.name} was so happy that {friend.he} "
                  f"sang a song."]),
        r.choice([f"The next day, {friend.name} brought {hero.him} a flower.",
                  f"The next week, {friend.name} came back with a basket "
                  f"of berries.",
                  f"{hero.name} learned that sharing is fun.",
                  f"{hero.name} was glad to have a new friend."]),
    ]


def afraid(r, hero, friend):
    fear, brave = r.choice([
        ("the dark", "walked into the dark room"),
        ("deep water", "jumped into the lake"),
        ("thunder", "went out to look at the storm"),
        ("the big dog next door", "gave the dog a bone"),
        ("high places", "climbed to the top of the hill"),
        ("the old bridge", "walked over the bridge")])
    return [
        r.choice([f"{hero.He} was afraid of {fear}.",
                  f"There was one thing {hero.he} did not like: {fear}."]),
        r.choice(["The others laughed at " + hero.him + ".",
                  f"{hero.His} mother said it was nothing bad.",
                  f"{hero.He} did not tell anyone about it."]),
        f"{hero.when} {hero.name} told {hero.his} friend "
        f"{friend.name}, a {friend.kind}, about it.",
        r.choice([f'"I was afraid too," said {friend.name}. '
                  f'"Take my hand."',
                  f'"We can do it together," said {friend.name}.',
                  f'"You are brave, I know it," said {friend.name}.']),
        r.choice([f"{hero.name} took a deep breath.",
                  f"{hero.name} closed {hero.his} eyes and counted to three.",
                  f"{hero.name} held {friend.name}'s hand."]),
        f"Then {hero.he} {brave}.",
        r.choice(["Nothing bad happened.", "It was not so bad at all.",
                  "It was even fun!"]),
        r.choice([f'"I did it!" said {hero.name}.',
                  f"{hero.name} was very proud.",
                  f"After that, {hero.name} was never afraid of {fear} "
                  f"again."]),
    ]


def build_thing(r, hero, friend):
    thing, broken, use = r.choice([
        ("a boat", "it sank", "sailed it on the lake"),
        ("a kite", "it fell down", "flew it high in the sky"),
        ("a tree house", "the roof fell down", "played in it all day"),
        ("a snowman", "its head fell off", "gave it a hat"),
        ("a sand castle", "a wave took it away", "put a flag on it"),
        ("a cart", "a wheel came off", "rode it down the hill")])
    it = thing.split(" ", 1)[1]
    return [
        f"{hero.name} wanted to "
        + r.choice(["build", "make"]) + f" {thing}.",
        r.choice([f"{hero.He} worked all morning.",
                  f"{hero.He} worked hard, all alone.",
                  f"{hero.He} began at once."]),
        r.choice([f"But {broken}.", f"When the {it} was ready, {broken}."]),
        r.choice([f"{hero.name} was angry and sat down on a stone.",
                  f'"I will never do it," said {hero.name}.',
                  f"{hero.name} wanted to give up."]),
        r.choice([f"{friend.name}, a {friend.kind}, saw it and came to help.",
                  f"Then {friend.known_as} came by."]),
        r.choice([f'"Let us try again," said {friend.name}.',
                  f'"Two are better than one," said {friend.name}.',
                  f'"May I help you?" asked {friend.name}. '
                  f'"Yes, please," said {hero.name}.']),
        r.choice([f"They worked together, and soon the {it} was ready.",
                  f"Together they made a new {it}, and it was better "
                  f"than before."]),
        f"They {use}.",
    ]


def garden(r, hero, friend):
    plant, fruit = r.choice([
        ("sunflower", "as tall as the house"), ("pumpkin", "big and orange"),
        ("apple tree", "full of apples"), ("rose", "red and beautiful"),
        ("bean", "up to the window"), ("cherry tree", "full of cherries")])
    return [
        r.choice([f"{hero.His} grandmother gave {hero.him} a seed.",
                  f"{hero.He} found a seed on the road.",
                  f"{hero.He} got a seed from a farmer."]),
        r.choice([f"{hero.name} put the seed into the ground.",
                  f"{hero.name} planted it in the garden."]),
        r.choice([f"Every day {hero.he} gave it water.",
                  f"{hero.He} waited and waited."]),
        r.choice(["But nothing happened.", "But it did not grow.",
                  "For many days there was nothing to see."]),
        r.choice([f'"It will never grow," said {hero.name}.',
                  f"{hero.name} was sad."]),
        r.choice([f'"You must wait," said {friend.known_as}.',
                  f'"Good things take time," said {friend.name}, '
                  f'{friend.old}.']),
        r.choice(["Then the rain came, and after it the sun.",
                  "In the spring, there was a small green leaf.",
                  "One morning there was something green."]),
        f"In the summer, the {plant} was {fruit}.",
        r.choice([f"{hero.name} showed it to {friend.name}.",
                  f"{hero.name} and {friend.name} danced around it.",
                  f'"You were right," said {hero.name} to {friend.name}.']),
    ]


def way_home(r, hero, friend):
    return [
        f"{hero.when} {hero.name} went into the forest to "
        + r.choice(["look for berries.", "find mushrooms.", "pick flowers.",
                    "look for wood."]),
        r.choice([f"{hero.He} walked and walked.",
                  f"{hero.He} went farther and farther."]),
        r.choice(["Soon it was dark.", "Then it began to snow.",
                  "Then the fog came."]),
        r.choice([f"{hero.name} did not know the way home.",
                  f'"I am lost," said {hero.name}.']),
        r.choice([f"{hero.He} sat down and cried.",
                  f"{hero.He} saw a small light between the trees.",
                  f"{hero.He} called for help."]),
        r.choice([f"A {friend.kind} named {friend.name} came out of a "
                  f"little house.",
                  f"Then {friend.name}, {friend.old}, came by."]),
        r.choice([f'"I know the way," said {friend.name}. "Come with me."',
                  f'"Follow me," said {friend.name}.',
                  f"{friend.name} had a lamp and showed {hero.him} the way."]),
        r.choice([f"Soon they were at {hero.name}'s home.",
                  f"When the moon came up, {hero.name} was home."]),
        r.choice([f"{hero.His} mother was very glad.",
                  f"{hero.His} mother and father were so happy to see "
                  f"{hero.him}.",
                  f"{friend.name} got a big piece of cake."]),
    ]


def birthday(r, hero, friend):
    present = r.choice(["a drum", "a new hat", "a book", "a little boat",
                        "a warm coat", "a red ball", "a bell"])
    return [
        f"It was {hero.name}'s birthday.",
        r.choice([f"But nobody said anything to {hero.him}.",
                  "But the house was empty.",
                  f"But {hero.his} friends were not there."]),
        r.choice([f'"They have forgotten me," said {hero.name}.',
                  f"{hero.name} was very sad."]),
        r.choice([f"{hero.He} went to see {friend.known_as}.",
                  f"{hero.He} met {friend.name}, a {friend.kind}, "
                  f"on the road."]),
        r.choice([f'"Come with me," said {friend.name}. '
                  f'"I want to show you something."',
                  f'"Can you help me in the garden?" asked {friend.name}.']),
        r.choice(["When they opened the door, everybody was there.",
                  "Behind the house, all the friends were waiting."]),
        r.choice(['"Happy birthday!" they all said.',
                  '"Surprise!" they cried.']),
        r.choice([f"{friend.name} gave {hero.him} {present}.",
                  f"{hero.name} got {present} and a big cake."]),
        r.choice([f"{hero.name} laughed and thanked everyone.",
                  "They sang and danced until the evening."]),
    ]


PLOTS = [lost_thing, stuck_friend, shared_food, afraid, build_thing, garden,
         way_home, birthday]


def story(r):
    hero = Hero(r)
    friend = Hero(r, hero)
    sentences = [opening(r, hero)] + r.choice(PLOTS)(r, hero, friend)
    if r.random() < 0.85:
        sentences.append(ending(r, hero, friend))
    text = " ".join(sentences)
    if r.random() < 0.1:
        return f"Tell me a story about a {hero.kind}.\n{text}"
    if r.random() < 0.1:
        return f"Tell me a story about {hero.name} the {hero.kind}.\n{text}"
    return text
