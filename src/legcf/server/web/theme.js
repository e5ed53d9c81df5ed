// SPDX-License-Identifier: Apache-2.0
// Runs before the page is drawn, so that a chosen theme does not flash.
(() => {
  try {
    const chosen = localStorage.getItem("legcf-theme");
    if (chosen) document.documentElement.dataset.theme = chosen;
  } catch { /* storage may be barred; the system's preference then holds */ }
})();
