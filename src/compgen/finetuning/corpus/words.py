"""The words that fill the slots of generated sentences."""

NAMES = ("Tom", "Ana", "Ben", "Mia", "Leo", "Eva", "Sam", "Ivy", "Max", "Zoe", "Jon", "Amy", "Dan", "Kim", "Roy", "Sue")
THINGS = ("apples", "pens", "books", "coins", "cards", "shells", "stamps", "balls", "cups", "nuts", "eggs", "keys")
PLACES = ("market", "garden", "school", "station", "library", "harbour")
CITIES = ("Rome", "Oslo", "Paris", "Cairo", "Lima", "Delhi", "Tokyo", "Berlin", "Quito", "Bern")
COLOURS = ("red", "blue", "green", "white", "black")
VARIABLES = ("x", "y", "z", "n", "k", "t", "a", "b")
LISTS = ("xs", "ns", "values", "numbers", "items", "data")
