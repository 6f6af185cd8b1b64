"""The words that prompts are made of: lists only, each written for this package unless its docstring says otherwise."""


def listed(text: str) -> tuple[str, ...]:
    """The words of a text."""
    return tuple(text.split())


CLASS_NAMES = listed(
    """
    apple aquarium_fish baby bear beaver bed bee beetle bicycle bottle
    bowl boy bridge bus butterfly camel can castle caterpillar cattle
    chair chimpanzee clock cloud cockroach couch crab crocodile cup dinosaur
    dolphin elephant flatfish forest fox girl hamster house kangaroo keyboard
    lamp lawn_mower leopard lion lizard lobster man maple_tree motorcycle mountain
    mouse mushroom oak_tree orange orchid otter palm_tree pear pickup_truck pine_tree
    plain plate poppy porcupine possum rabbit raccoon ray road rocket
    rose sea seal shark shrew skunk skyscraper snail snake spider
    squirrel streetcar sunflower sweet_pepper table tank telephone television tiger tractor
    train trout tulip turtle wardrobe whale willow_tree wolf woman worm
    """
)
"""The hundred classes of CIFAR-100 (Krizhevsky 2009), lower case, underscores kept."""

PAST_TENSES: tuple[tuple[str, str], ...] = tuple(
    (present, past)
    for present, _, past in (
        pair.partition(":")
        for pair in listed(
            """
    go:went eat:ate see:saw take:took give:gave write:wrote drive:drove speak:spoke break:broke choose:chose
    begin:began drink:drank sing:sang swim:swam run:ran come:came fly:flew grow:grew know:knew throw:threw
    draw:drew buy:bought bring:brought think:thought teach:taught catch:caught find:found hold:held stand:stood sit:sat
    sleep:slept keep:kept feel:felt leave:left lose:lost make:made pay:paid sell:sold tell:told win:won
    walk:walked jump:jumped cook:cooked laugh:laughed open:opened climb:climbed paint:painted smile:smiled
    wait:waited listen:listened
            """
        )
    )
)
"""Verbs and their past tenses, no form shared by two of them."""

FIRST_NAMES = listed(
    """
    Aaron Abigail Adam Agnes Albert Alice Amelia Andrew Angela Anthony
    Arthur Barbara Beatrice Benjamin Bernard Brian Bridget Caroline Catherine Charles
    Claire Clara Colin Connor Cynthia Daniel David Deborah Dennis Diana
    Donald Dorothy Douglas Edgar Edward Eleanor Elizabeth Emily Emma Eric
    Esther Ethan Eva Felix Fiona Florence Frank Frederick Gabriel George
    Gloria Gordon Hannah Harold Heather Helen Henry Howard Hugo Irene
    Isaac Isabel Jacob James Janet Jason Jeremy Jessica John Joseph
    Joyce Judith Julia Karen Keith Kevin Laura Leonard Linda Louis
    Lucas Lucy Margaret Martin Mary Matthew Michael Monica Nathan Nicole
    Oliver Oscar Patrick Peter Rachel Rebecca Richard Robert Simon Thomas
    """
)
"""Common English first names, none of which begins another."""

PLACES: tuple[str, ...] = ("station", "library", "market", "museum", "school", "garden", "restaurant", "beach")
OBJECTS: tuple[str, ...] = ("basketball", "book", "ring", "letter", "sandwich", "camera", "ticket", "flower", "lamp")
"""All go with the article `a`."""

THINGS = listed(
    """
    apples balls bananas beads bells books boxes bricks brushes buttons
    candles cards carrots chairs cookies cups eggs erasers flags forks
    hats keys lamps lemons magnets marbles mugs muffins notebooks oranges
    pencils pens plates ribbons shells spoons stamps stickers toys tulips
    """
)
"""Countable things, in the plural."""
