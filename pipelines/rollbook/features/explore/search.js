addEventListener("keydown", event => {
  const search = document.getElementById("search");
  if (event.key === "/" && search && !event.ctrlKey && !event.metaKey && !event.altKey && !event.target.matches("input, select, textarea")) {
    event.preventDefault();
    search.focus();
  }
});
