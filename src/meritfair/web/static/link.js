// A one-time link has its token behind #, which is never sent by itself: it is put into the form here, and taken out of
// the address, so that it stays neither there nor in the history. Nothing is sent before the button is pressed, so that
// programs which only look at links in mails do not use them up.
"use strict";

(function () {
  const form = document.querySelector("[data-link-form]");
  const token = window.location.hash.slice(1);
  if (!form || !token) return;
  form.elements.namedItem("link").value = token;
  form.querySelector("[data-link-field]").hidden = true;
  window.history.replaceState(null, "", window.location.pathname);
  form.querySelector("button").focus();
})();
