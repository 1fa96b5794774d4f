"""The app of `rollbook explore`, a marimo notebook: each function is a cell, which runs again when its inputs change.

Only the menu and the controls are here; `pages` has their queries and contents.
"""

import marimo

__generated_with = "0.25.2"
app = marimo.App(width="medium", app_title="Rollbook")


@app.cell
def _():
    from functools import partial

    import marimo as mo

    from pipelines.explore import pages

    def html(parts):
        return mo.vstack([mo.Html(part) for part in parts if part])

    address = mo.query_params()
    asked = dict(address.to_dict())  # as it was when the page was opened
    book = pages.open_book()
    get_page, set_page = mo.state(pages.page_asked(asked, book), allow_self_loops=True)
    return address, asked, book, get_page, html, mo, pages, partial, set_page


@app.cell
def _(address, book, get_page, html, mo, pages, partial, set_page):
    mo.stop(book.trouble != "", mo.md(book.trouble))

    # The menu. The address contains the page, too, so that it can be bookmarked.
    def open_page(key, _):
        address.set("page", key)
        set_page(pages.pages_of(book)[key])

    shown = get_page()
    menu = mo.ui.array(
        [
            mo.ui.button(label=name, kind="success" if name == shown else "neutral", on_change=partial(open_page, key))
            for key, name in pages.pages_of(book).items()
        ]
    )
    mo.vstack([html(pages.title(book)), mo.hstack(list(menu), justify="start", wrap=True)])
    return (shown,)


@app.cell
def _(book, html, mo, pages, shown):
    # The school today
    mo.stop(shown != pages.SCHOOL)
    html(pages.school(book))


@app.cell
def _(asked, book, mo, pages, shown):
    # All institutions: the choice
    mo.stop(shown != pages.INSTITUTIONS)
    names = [name for (name,) in book.rows("", "SELECT institution FROM main.institutions ORDER BY institution")]
    chosen = mo.ui.multiselect(
        names, value=[name for name in names if name == asked.get("institution")], label="Only these institutions"
    )
    chosen
    return (chosen,)


@app.cell
def _(book, chosen, html, pages):
    html(pages.institutions(book, chosen.value))


@app.cell
def _(asked, mo, pages, shown):
    # A class or a student: the choice
    mo.stop(shown not in pages.CHOICES)
    noun, query, hint = pages.CHOICES[shown]
    text = mo.ui.text(
        value=str(asked.get(f"{noun}_id", "")),
        label=f"Find a {noun}",
        placeholder=hint,
        debounce=400,
        full_width=True,
    )
    text
    return noun, query, text


@app.cell
def _(book, mo, noun, pages, query, text):
    found = pages.find(book, query, text.value)
    mo.stop(not found, mo.md(f"No {noun} matches."))
    choice = mo.ui.dropdown(
        found, value=next(iter(found)), label=noun.title(), full_width=True, allow_select_none=False
    )
    choice
    return (choice,)


@app.cell
def _(book, choice, html, mo, pages, shown):
    # A class
    mo.stop(shown != pages.CLASS)
    roster_text = mo.ui.text(label="Name", placeholder="a part of it", debounce=400)
    html(pages.one_class(book, choice.value))
    return (roster_text,)


@app.cell
def _(book, choice, mo, pages, roster_text):
    roster = pages.roster(book, choice.value, roster_text.value)
    roster_page = mo.ui.number(1, roster.pages, step=1, label="Page")
    mo.hstack([roster_text, roster_page], justify="start", wrap=True)
    return roster, roster_page


@app.cell
def _(html, pages, roster, roster_page):
    html(pages.listed(roster, roster_page.value, "students"))


@app.cell
def _(book, choice, html, mo, pages, shown):
    # A student
    mo.stop(shown != pages.STUDENT)
    timeline = pages.timeline(book, choice.value)
    history = pages.history(book, choice.value)
    timeline_page = mo.ui.number(1, timeline.pages, step=1, label="Page of changes")
    history_page = mo.ui.number(1, history.pages, step=1, label="Page of versions")
    mo.vstack([html(pages.student(book, choice.value)), timeline_page if timeline.pages > 1 else ""])
    return history, history_page, timeline, timeline_page


@app.cell
def _(history, history_page, html, mo, pages, timeline, timeline_page):
    mo.vstack(
        [
            html([*pages.listed(timeline, timeline_page.value, "changes"), pages.subtitle("History of the summary")]),
            history_page if history.pages > 1 else "",
            html(pages.listed(history, history_page.value, "versions")),
        ]
    )


@app.cell
def _(book, mo, pages, shown):
    # Newly to watch
    mo.stop(shown != pages.WATCH)
    mo.stop(len(book.days) < 2, mo.md(pages.ONE_DAY))
    watch_day = mo.ui.dropdown(
        {str(d): d for d in book.days[:-1]}, value=str(book.days[0]), label="On", allow_select_none=False
    )
    watch_turn = mo.ui.dropdown(
        {"newly to watch": True, "no longer to watch": False},
        value="newly to watch",
        label="Students",
        allow_select_none=False,
    )
    watch_text = mo.ui.text(label="Name or reason", placeholder="a part of it", debounce=400)
    return watch_day, watch_text, watch_turn


@app.cell
def _(book, mo, pages, watch_day, watch_text, watch_turn):
    watched = pages.watch(book, watch_day.value, watch_text.value, newly=watch_turn.value)
    watch_page = mo.ui.number(1, watched.pages, step=1, label="Page")
    mo.vstack(
        [
            mo.md(f"Compared with the landed day before, {book.before(watch_day.value)}."),
            mo.hstack([watch_turn, watch_day, watch_text, watch_page], justify="start", wrap=True),
        ]
    )
    return watch_page, watched


@app.cell
def _(html, pages, watch_page, watched):
    html(pages.listed(watched, watch_page.value, "students"))


@app.cell
def _(book, mo, pages, shown):
    # Two dates compared
    mo.stop(shown != pages.COMPARE)
    mo.stop(len(book.days) < 2, mo.md(pages.ONE_DAY))
    landed = {str(d): d for d in book.days}
    one_day = mo.ui.dropdown(landed, value=str(book.days[-1]), label="Compare", allow_select_none=False)
    other_day = mo.ui.dropdown(landed, value=str(book.days[0]), label="with", allow_select_none=False)
    mo.hstack([one_day, other_day], justify="start", wrap=True)
    return one_day, other_day


@app.cell
def _(book, html, mo, one_day, other_day, pages):
    mo.stop(one_day.value == other_day.value, mo.md("Choose two different days."))
    before, day = sorted((one_day.value, other_day.value))
    compared_text = mo.ui.text(label="Name", placeholder="a part of it", debounce=400)
    html(pages.compared(book, before, day))
    return before, compared_text, day


@app.cell
def _(before, book, compared_text, day, mo, pages):
    compared = pages.compared_students(book, before, day, compared_text.value)
    compared_page = mo.ui.number(1, compared.pages, step=1, label="Page")
    mo.hstack([compared_text, compared_page], justify="start", wrap=True)
    return compared, compared_page


@app.cell
def _(compared, compared_page, html, pages):
    html(pages.listed(compared, compared_page.value, "students"))


@app.cell
def _(book, mo, pages, shown):
    # Any table or view
    mo.stop(shown != pages.TABLES)
    relations = book.relations()
    relation = mo.ui.dropdown(
        relations, value="roster", label="Table or view", searchable=True, allow_select_none=False
    )
    relation
    return (relation,)


@app.cell
def _(mo, pages, relation):
    column_names = [name for name, _, _ in relation.value.columns]
    filtered = mo.ui.dropdown(column_names, label="Only rows where", searchable=True)
    comparison = mo.ui.dropdown(list(pages.COMPARISONS), value="contains", allow_select_none=False)
    filter_value = mo.ui.text(placeholder="value", debounce=400)
    sorted_by = mo.ui.dropdown(column_names, label="Sorted by", searchable=True)
    descending = mo.ui.checkbox(label="highest first")
    mo.vstack(
        [
            mo.md(relation.value.comment),
            mo.hstack([filtered, comparison, filter_value], justify="start", wrap=True),
            mo.hstack([sorted_by, descending], justify="start", wrap=True),
        ]
    )
    return comparison, descending, filter_value, filtered, sorted_by


@app.cell
def _(book, comparison, descending, filter_value, filtered, mo, pages, partial, relation, sorted_by):
    selection = pages.Selection(
        relation.value,
        filtered.value,
        comparison.value,
        filter_value.value.strip(),
        sorted_by.value,
        descending.value,
    )
    selected = book.selected(selection)
    rows_page = mo.ui.number(1, selected.pages, step=1, label="Page")
    download = (
        mo.download(
            partial(book.csv, selection),
            filename=f"{selection.relation.title}.csv",
            mimetype="text/csv",
            label="Download all of these rows as CSV",
        )
        if selected.total <= pages.DOWNLOADED
        else mo.md(
            f"More than {pages.DOWNLOADED:,} rows are too many to download here: filter them, or run"
            f" `rollbook export {selection.relation.title} --out {selection.relation.title}.csv`."
        )
    )
    mo.hstack([rows_page, download], justify="start", wrap=True)
    return rows_page, selected, selection


@app.cell
def _(html, mo, pages, rows_page, selected, selection):
    mo.vstack(
        [
            html(pages.listed(selected, rows_page.value, "rows")),
            mo.accordion(
                {
                    "What the columns mean": mo.Html(
                        pages.table(("column", "type", "meaning"), selection.relation.columns)
                    )
                }
            ),
        ]
    )


if __name__ == "__main__":
    app.run()
