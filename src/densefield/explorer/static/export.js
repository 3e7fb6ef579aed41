// Copying the result as text, saving it, and downloading it.

import { post } from "./api.js";
import { currentSettings, path } from "./solve.js";
import { byId, on, state } from "./state.js";

const status = byId("export-status");
const NAMES = { python: "Python", command: "The command", toml: "crf.toml" };

let last = Promise.resolve();

/** Runs actions one after another, since the server drops all but the newest; shows the message of each, or its error. */
function report(action) {
  last = last.then(async () => {
    try {
      const message = await action();
      status.className = "note";
      status.textContent = message;
    } catch (error) {
      status.className = "refused";
      status.textContent = error.message;
    }
  });
}

/** Runs an action with the image and settings of now, whatever is shown when its turn comes. */
function act(name, action) {
  const address = name === "crf" ? name : path(name);
  const { saved_as: file } = state.image;
  const settings = currentSettings();
  report(async () => action((more) => settings.then((now) => post(address, { settings: now, ...more })), file));
}

async function copy(form, ask) {
  const { text, files } = await (await ask({ form })).json();
  const shown = byId("snippet");
  shown.hidden = false;
  shown.className = form === "command" ? "wrapped" : "";
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
  const { form } = button.dataset;
  button.addEventListener("click", () => act(form === "toml" ? "crf" : "export", (ask) => copy(form, ask)));
}

byId("save").addEventListener("click", () =>
  act("save", async (ask) => `Saved: ${(await (await ask()).json()).path}`),
);

byId("download").addEventListener("click", () =>
  act("download", async (ask, file) => {
    const response = await ask();
    const link = document.createElement("a");
    link.href = URL.createObjectURL(await response.blob());
    link.download = file;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
    return `Downloaded: ${link.download}`;
  }),
);

/** Actions need a result, but that of crf.toml, which needs kernels. */
function enable() {
  for (const button of [...document.querySelectorAll("button[data-form]"), byId("save"), byId("download")]) {
    button.disabled = button.id === "copy-toml" ? state.settings.model === "learnt" : !state.result;
  }
  const { iterations } = state.settings;
  const note = byId("export-step");
  note.hidden = !state.result || state.step === null || state.step >= iterations;
  note.textContent = `The step shown is used: iteration ${state.step} of ${iterations}.`;
}
on("result settings step", enable);
enable();
