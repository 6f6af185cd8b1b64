"""Worked examples in GSM8K's form, written for this package: for when no training rows are given."""

SHOTS: tuple[tuple[str, str], ...] = (
    (
        "A bakery bakes 14 trays of rolls with 12 rolls on each tray. By noon 95 rolls are sold. "
        "How many rolls are left?",
        "The bakery bakes 14*12=<<14*12=168>>168 rolls.\nAfter noon 168-95=<<168-95=73>>73 rolls are left.\n#### 73",
    ),
    (
        "Nora reads 18 pages on Friday and twice as many on Saturday. How many pages does she read on both days?",
        "On Saturday Nora reads 18*2=<<18*2=36>>36 pages.\nTogether she reads 18+36=<<18+36=54>>54 pages.\n#### 54",
    ),
    (
        "A bus has 52 seats. At the first stop 17 people get on, at the second stop 23 more, and nobody gets off. "
        "How many seats are free?",
        "There are 17+23=<<17+23=40>>40 people on the bus.\nSo 52-40=<<52-40=12>>12 seats are free.\n#### 12",
    ),
    (
        "Three brothers share the price of a gift equally. The gift costs $81 and the wrapping $6. "
        "How many dollars does each of them pay?",
        "The gift and its wrapping cost 81+6=<<81+6=87>>87 dollars.\nEach brother pays 87/3=<<87/3=29>>29 dollars.\n"
        "#### 29",
    ),
    (
        "A gardener waters 9 flower beds every day. Each bed takes 4 minutes, and filling the can takes 5 minutes a "
        "day. How many minutes does the watering take in a week?",
        "The beds take 9*4=<<9*4=36>>36 minutes a day.\nWith the can it is 36+5=<<36+5=41>>41 minutes a day.\n"
        "In a week it takes 41*7=<<41*7=287>>287 minutes.\n#### 287",
    ),
    (
        "Omar has 200 dollars. He buys 4 shirts for 22 dollars each and a belt for 35 dollars. "
        "How many dollars does he have left?",
        "The shirts cost 4*22=<<4*22=88>>88 dollars.\nWith the belt he spends 88+35=<<88+35=123>>123 dollars.\n"
        "He has 200-123=<<200-123=77>>77 dollars left.\n#### 77",
    ),
    (
        "A pump fills 15 litres a minute into a tank that already holds 60 litres. "
        "How many litres are in the tank after 20 minutes?",
        "The pump adds 15*20=<<15*20=300>>300 litres.\nThe tank then holds 60+300=<<60+300=360>>360 litres.\n#### 360",
    ),
    (
        "A choir of 48 singers stands in rows of 8. Each row needs 2 lamps. How many lamps does the choir need?",
        "The choir stands in 48/8=<<48/8=6>>6 rows.\nIt needs 6*2=<<6*2=12>>12 lamps.\n#### 12",
    ),
)
