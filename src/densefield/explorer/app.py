"""The routes of the explorer: the files of the page, images, results, and questions about results."""

from __future__ import annotations

import mimetypes
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, get_args

import numpy as np
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from densefield.crf.model import CRF
from densefield.errors import DensefieldError, InputError
from densefield.explorer import details, listening
from densefield.explorer.gallery import Gallery, Picture
from densefield.explorer.inference import Check, Inference, Result
from densefield.explorer.lanes import Lane, SupersededError
from densefield.explorer.messages import Asked, TooLargeError, asked, describe, jpeg, labels_message, result_message
from densefield.explorer.presets import presets
from densefield.explorer.saving import result_png, save_result
from densefield.explorer.security import Guard
from densefield.explorer.settings import Settings, canonical, settings_from_json
from densefield.explorer.snippets import Form, crf_text, snippet
from densefield.explorer.wording import in_page
from densefield.labels import VOID

LANES: tuple[str, ...] = ("sliders", "pixels", "questions", "actions")


@dataclass
class Explorer:
    """What the routes share.

    Parameters
    ----------
    gallery
        The images.
    out
        The folder for saved results.
    crf
        The CRF of a file, which is a preset.
    threads
        Number of threads; all processors by default.
    """

    gallery: Gallery
    out: Path
    crf: CRF | None = None
    threads: int | None = None
    lanes: dict[str, Lane] = field(default_factory=lambda: {name: Lane(name) for name in LANES})

    def __post_init__(self) -> None:
        self.inference = Inference(self.threads)

    def close(self) -> None:
        """Ends all threads."""
        for lane in self.lanes.values():
            lane.close()


@dataclass(frozen=True)
class Case:
    """A request with the result that it is about."""

    explorer: Explorer
    asked: Asked
    picture: Picture
    settings: Settings
    result: Result
    check: Check


Answer = Callable[[Case], Response]
Endpoint = Callable[[Request], Awaitable[Response]]


def create_app(explorer: Explorer, token: str, hosts: list[str]) -> Guard:
    """The application, which answers requests with this token to these hosts only."""
    image = f"/{token}/images/{{index:int}}"
    routes = [
        Route(f"/{token}/", _index),
        Route(f"/{token}/static/{{name}}", _static),
        Route(f"/{token}/gallery", _about_gallery(explorer)),
        Route(image, _about_image(explorer)),
        Route(f"{image}/photo", _photo(explorer)),
        Route(f"{image}/labels/{{kind}}", _labels(explorer)),
        Route(f"/{token}/crf", _crf(explorer), methods=["POST"]),
    ]
    for name, (lane, answer) in ANSWERS.items():
        routes.append(Route(f"{image}/{name}", _answering(explorer, lane, answer), methods=["POST"]))
    handlers: dict[Any, Any] = {
        TooLargeError: _failing(413),
        DensefieldError: _failing(400),
        SupersededError: _failing(409),
        ClientDisconnect: _failing(400),  # nobody reads the answer
        OSError: _failing(400),
        MemoryError: _failing(400),
        404: lambda request, error: JSONResponse({"error": "There is nothing at this address."}, 404),
        405: lambda request, error: JSONResponse({"error": "This method is not allowed here."}, 405),
    }
    return Guard(Starlette(routes=routes, exception_handlers=handlers), token, hosts)


def _failing(status: int) -> Callable[[Request, Exception], Response]:
    def answer(request: Request, error: Exception) -> Response:
        message = str(error) or {409: "A newer request came."}.get(status, type(error).__name__)
        if isinstance(error, OSError) and error.strerror is not None:
            message = f"{error.filename or 'a file'}: {error.strerror}."
        return JSONResponse({"error": in_page(message)}, status)

    return answer


@cache
def _page_files() -> dict[str, bytes]:
    """The files of the page by name: requests look names up, and never open a path."""
    folder = files("densefield.explorer") / "static"
    return {item.name: item.read_bytes() for item in folder.iterdir() if item.is_file()}


async def _index(request: Request) -> Response:
    return Response(_page_files()["index.html"], media_type="text/html")


async def _static(request: Request) -> Response:
    name = request.path_params["name"]
    content = _page_files().get(name)
    if content is None:
        return JSONResponse({"error": "There is no such file."}, 404)
    kind = "text/javascript" if name.endswith(".js") else mimetypes.guess_type(name)[0]
    return Response(content, media_type=kind)


def _about_gallery(explorer: Explorer) -> Endpoint:
    async def answer(request: Request) -> Response:
        gallery = explorer.gallery
        return JSONResponse(
            {
                "images": [entry.image.name for entry in gallery.entries],
                "skipped": list(gallery.skipped),
                "presets": presets(explorer.crf),
                "out": str(explorer.out),
            }
        )

    return answer


def _about_image(explorer: Explorer) -> Endpoint:
    async def answer(request: Request) -> Response:
        picture = await _picture(explorer, request)
        return JSONResponse(await run_in_threadpool(describe, picture))

    return answer


def _photo(explorer: Explorer) -> Endpoint:
    async def answer(request: Request) -> Response:
        picture = await _picture(explorer, request)
        return Response(await run_in_threadpool(jpeg, picture), media_type="image/jpeg")

    return answer


def _labels(explorer: Explorer) -> Endpoint:
    async def answer(request: Request) -> Response:
        picture, kind = await _picture(explorer, request), request.path_params["kind"]
        if kind == "mask" and picture.mask is not None:
            mask = picture.mask
            return await run_in_threadpool(lambda: labels_message(mask.labels()))
        if kind == "truth" and picture.truth is not None:
            truth = picture.truth
            return await run_in_threadpool(lambda: labels_message(np.where(truth == VOID, -1, truth)))
        raise InputError(f"this image has no {'true mask' if kind == 'truth' else 'mask'}.")

    return answer


def _crf(explorer: Explorer) -> Endpoint:
    async def answer(request: Request) -> Response:
        question = await asked(request)
        text = crf_text(settings_from_json(question.settings, explorer.threads))
        return JSONResponse({"text": text, "files": []})

    return answer


async def _picture(explorer: Explorer, request: Request) -> Picture:
    return await run_in_threadpool(explorer.gallery.picture, request.path_params["index"])


def _answering(explorer: Explorer, lane: str, answer: Answer) -> Endpoint:
    """The route of an answer about a result, which is computed if it is not in memory."""

    async def endpoint(request: Request) -> Response:
        index, question = request.path_params["index"], await asked(request)
        settings = settings_from_json(question.settings, explorer.threads)

        def work(check: Check) -> Response:
            picture = explorer.gallery.picture(index)
            result = explorer.inference.result(index, picture, settings, canonical(question.settings), check)
            check()
            return answer(Case(explorer, question, picture, settings, result, check))

        async def gone() -> None:
            while (await request.receive())["type"] != "http.disconnect":
                pass

        return await explorer.lanes[lane].run(question.client, question.number, work, gone)

    return endpoint


def _solve(case: Case) -> Response:
    planes = [details.entropy(case.result)] if case.asked.body.get("entropy") is True else []
    return result_message(case.result, details.summary(case.result), *planes)


def _numbers(case: Case) -> Response:
    return JSONResponse({"truth": details.scores_against_truth(case.picture, case.result)})


def _energies(case: Case) -> Response:
    return JSONResponse(details.energies(case.result, case.check))


def _findings(case: Case) -> Response:
    return JSONResponse({"findings": details.findings(case.picture, case.settings, case.result)})


def _pixel(case: Case) -> Response:
    place = case.asked.place("pixel", case.picture.size[0] * case.picture.size[1])
    return JSONResponse(listening.pixel_facts(case.result, place))


def _row(case: Case) -> Response:
    pixels = case.picture.size[0] * case.picture.size[1]
    row = listening.kernel_row(case.result, case.asked.place("kernel", 100), case.asked.place("pixel", pixels))
    heat = np.zeros(pixels, np.uint8) if row is None else listening.as_heat(row)
    return Response(heat.tobytes(), media_type="application/octet-stream")


def _export(case: Case) -> Response:
    form: Any = case.asked.body.get("form")
    if form not in get_args(Form):
        raise InputError(f"form is {str(form)[:40]!r}, expected one of {', '.join(get_args(Form))}.")
    explorer = case.explorer
    found = snippet(form, case.picture, case.settings, case.result, explorer.gallery.reading, explorer.out)
    return JSONResponse({"text": found.text, "files": [str(path) for path in found.files]})


def _save(case: Case) -> Response:
    return JSONResponse({"path": str(save_result(case.picture, case.result, case.explorer.out))})


def _download(case: Case) -> Response:
    return Response(result_png(case.result), media_type="image/png")


ANSWERS: dict[str, tuple[str, Answer]] = {
    "solve": ("sliders", _solve),
    "pixel": ("pixels", _pixel),
    "row": ("pixels", _row),
    "numbers": ("questions", _numbers),
    "energies": ("questions", _energies),
    "findings": ("questions", _findings),
    "export": ("actions", _export),
    "save": ("actions", _save),
    "download": ("actions", _download),
}
