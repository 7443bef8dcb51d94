# A cell for the workbench: its last value, a table, and the figure that it leaves open come back.
import pandas as pd

teas = pd.DataFrame({"tea": ["Green", "Black", "Mint"], "sold": [412, 380, 127], "price": [2.5, 2.2, 3.0]})
teas["income"] = (teas.sold * teas.price).round(2)
teas.plot.bar(
    x="tea", y="income", legend=False, color="#2f7d5b", title="Income by tea", rot=0, figsize=(6, 3)
)
teas  # noqa: B018
