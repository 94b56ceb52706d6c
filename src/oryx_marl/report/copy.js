// Copies the command: pages opened from a disk may have no clipboard, so the old way is there too.
(() => {
  "use strict";
  const button = document.getElementById("copy");
  const command = document.getElementById("command");
  if (!button || !command) return;

  function tell(text) {
    button.textContent = text;
    setTimeout(() => (button.textContent = "Copy"), 2000);
  }

  function copySelected() {
    const range = document.createRange();
    range.selectNodeContents(command);
    const selection = getSelection();
    selection.removeAllRanges();
    selection.addRange(range);
    // The text stays selected where even this is forbidden, so that one key is enough.
    tell(document.execCommand("copy") ? "Copied" : "Press Ctrl+C");
  }

  button.addEventListener("click", () => {
    if (!navigator.clipboard) return copySelected();
    navigator.clipboard.writeText(command.textContent).then(() => tell("Copied"), copySelected);
  });
})();
