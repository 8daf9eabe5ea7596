# Processes that do jobs, and may crash or take too long without harm to the others.
import multiprocessing
import queue
import threading

START_SECONDS = 120


def begin(connection, timed):
    import jobs  # PyTorch is for the workers only: the process that directs them cannot be taken down by it

    jobs.serve(connection, timed)


class Worker:
    def __init__(self, timed=False):
        self.timed, self.process, self.hello = timed, None, None

    def start(self):
        context = multiprocessing.get_context("spawn")
        self.connection, other = context.Pipe()
        self.process = context.Process(target=begin, args=(other, self.timed))
        self.process.start()
        other.close()
        if not self.connection.poll(START_SECONDS):
            raise EOFError
        self.hello = self.connection.recv()

    def ask(self, job, limit):
        try:
            if self.process is None:
                self.start()
            self.connection.send(job)
            if not self.connection.poll(limit):
                self.end()
                return {"error": f"it took longer than {limit:.0f} s"}
            answer = self.connection.recv()
        except (EOFError, BrokenPipeError, ConnectionResetError):
            self.process.join(1)
            status = self.process.exitcode
            self.end()
            return {"error": "its process did not start" if status is None else f"its process ended with {status}"}
        if answer.get("broken"):
            self.end()
        return answer

    def end(self):
        if self.process is not None:
            self.process.kill()
            self.process.join()
            self.connection.close()
            self.process = None


def share(jobs, workers, limit, done):
    """All jobs, by the workers at once; `done` is called with each job and its answer."""
    waiting, lock = queue.SimpleQueue(), threading.Lock()
    for job in jobs:
        waiting.put(job)

    def drain(worker):
        while True:
            try:
                job = waiting.get_nowait()
            except queue.Empty:
                break
            answer = worker.ask(job, limit)
            with lock:
                done(job, answer)
        worker.end()

    threads = [threading.Thread(target=drain, args=(worker,)) for worker in workers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
