// What pages do by themselves. Everything also works without it, by plain links and forms.
"use strict";

(function () {
  const speech = document.documentElement.lang || "en";

  // Times are written in UTC by the server, and in the reader's own time here.
  function localTimes(root) {
    for (const element of root.querySelectorAll("time[datetime]:not([data-local])")) {
      const time = new Date(element.dateTime);
      if (!element.dateTime.includes("T") || Number.isNaN(time.getTime())) continue;
      element.title = element.textContent;
      element.textContent = time.toLocaleString(navigator.language.startsWith(speech) ? navigator.language : speech, {
        dateStyle: "medium",
        timeStyle: "short",
      });
      element.dataset.local = "";
    }
  }

  function closeMenus(except) {
    for (const menu of document.querySelectorAll("details.menu[open]")) {
      if (menu !== except) menu.open = false;
    }
  }

  document.addEventListener("click", (event) => {
    closeMenus(event.target.closest("details.menu"));
    if (event.target.closest("[data-print]")) window.print();
    const copy = event.target.closest("[data-copy]");
    if (copy) {
      navigator.clipboard.writeText(copy.dataset.copy).then(() => say(copy.dataset.copied || "✓"));
    }
    const reload = event.target.closest("[data-reload]");
    if (reload) {
      event.preventDefault();
      window.location.reload();
    }
  });

  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    const open = event.target.closest("details.menu[open], details.confirm[open]");
    closeMenus(null);
    if (open) {
      open.open = false;
      open.querySelector("summary").focus();
    }
  });

  // A second tap before the answer has no effect: the form is sent once. Its keys guard against the rest.
  document.addEventListener("submit", (event) => {
    const form = event.target;
    if (form.hasAttribute("hx-post") || form.method !== "post") return;
    if (form.classList.contains("sending")) {
      event.preventDefault();
      return;
    }
    form.classList.add("sending");
  });
  window.addEventListener("pageshow", () => {
    for (const form of document.querySelectorAll("form.sending")) form.classList.remove("sending");
  });

  // A filter without a button: choosing is enough.
  document.addEventListener("change", (event) => {
    const form = event.target.closest("form[data-submit-on-change]");
    if (form) form.requestSubmit();
  });

  function say(text) {
    const place = document.getElementById("announcement");
    if (place) place.textContent = text;
  }

  // After a tap has been saved, whoever uses the keyboard goes on with the next one who is missing.
  let answered = null;
  document.addEventListener("htmx:beforeRequest", (event) => {
    const message = document.getElementById("message");
    if (message && event.detail.requestConfig.verb !== "get") message.replaceChildren();
    const call = event.target.closest(".call");
    answered = call && call.contains(document.activeElement) ? call.id : null;
  });
  document.addEventListener("htmx:afterSettle", (event) => {
    localTimes(document);
    const call = answered && document.getElementById(answered);
    if (!call || !event.target.closest("#" + CSS.escape(answered))) return;
    answered = null;
    const missing = [...document.querySelectorAll(".call:not(.answered)")];
    const after = missing.find((each) => call.compareDocumentPosition(each) & Node.DOCUMENT_POSITION_FOLLOWING);
    const next = after || missing[0];
    const button = (next || call).querySelector("button, summary");
    if (button) button.focus({ preventScroll: true });
    if (next) next.scrollIntoView({ block: "nearest" });
  });

  // On a narrow screen the tab of this page may be out of sight.
  const tab = document.querySelector(".tabs [aria-current]");
  if (tab) {
    const tabs = tab.closest(".tabs");
    const hidden = tab.getBoundingClientRect().right - tabs.getBoundingClientRect().right + 48;
    if (hidden > 0) tabs.scrollLeft += hidden;
  }

  localTimes(document);
})();
