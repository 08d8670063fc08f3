// Pictures follow the theme that a reader chooses, not only that of the system.
(() => {
    const html = document.documentElement;
    const sources = document.querySelectorAll("picture source");
    const follow = () => {
        const dark = ["navy", "coal", "ayu"].some((theme) => html.classList.contains(theme));
        sources.forEach((source) => { source.media = dark ? "all" : "not all"; });
    };
    follow();
    new MutationObserver(follow).observe(html, { attributes: true, attributeFilter: ["class"] });
})();
// An option is not broken after its hyphens.
document.querySelectorAll(":not(pre) > code").forEach((code) => {
    code.classList.toggle("short", code.textContent.length <= 20);
});
