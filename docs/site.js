/* What the theme makes in the browser: names for the buttons of each block, and tables that are scrolled by keys, too. */
const complete = () => {
  document.querySelectorAll("nav.md-code__nav:not([aria-label])").forEach((nav, number) => {
    nav.setAttribute("aria-label", `Code block ${number + 1}`)
  })
  document.querySelectorAll(".md-typeset__scrollwrap:not([tabindex])").forEach(table => {
    table.tabIndex = 0
  })
}
document.addEventListener("DOMContentLoaded", () => {
  complete()
  new MutationObserver(complete).observe(document.body, { childList: true, subtree: true })
})
