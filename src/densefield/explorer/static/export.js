// Copying the result as text, saving it, and downloading it.

import { post } from "./api.js";
import { currentSettings, path } from "./solve.js";
import { byId, state } from "./state.js";

const status = byId("export-status");
const NAMES = { python: "Python", command: "The command", toml: "crf.toml" };

/** Runs an action and shows its message, or its error. */
async function report(action) {
  try {
    status.className = "note";
    status.textContent = await action();
  } catch (error) {
    status.className = "refused";
    status.textContent = error.message;
  }
}

async function copy(form) {
  const { text, files } = await (await post(path("export"), { settings: await currentSettings(), form })).json();
  const shown = byId("snippet");
  shown.hidden = false;
  shown.value = text;
  const saved = files.length ? ` Saved for it: ${files.join(", ")}.` : "";
  try {
    await navigator.clipboard.writeText(text);
    return `${NAMES[form]} copied.${saved}`;
  } catch {
    shown.focus();
    shown.select();
    return `${NAMES[form]} is selected below: copy it with Ctrl C.${saved}`;
  }
}

for (const button of document.querySelectorAll("button[data-form]")) {
  button.addEventListener("click", () => report(() => copy(button.dataset.form)));
}

byId("save").addEventListener("click", () =>
  report(async () => {
    const answer = await (await post(path("save"), { settings: await currentSettings() })).json();
    return `Saved: ${answer.path}`;
  }),
);

byId("download").addEventListener("click", () =>
  report(async () => {
    const response = await post(path("download"), { settings: await currentSettings() });
    const link = document.createElement("a");
    link.href = URL.createObjectURL(await response.blob());
    link.download = `${state.image.name.replace(/\.[^.]*$/, "")}.png`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
    return `Downloaded: ${link.download}`;
  }),
);
