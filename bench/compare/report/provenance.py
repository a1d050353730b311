"""Where a run's figures come from: commits, builds, machine, day, command."""
from report.cells import model_title


def commits_of(run):
    commits = dict.fromkeys(str(s.get("commit", run["skippy"]["commit"]))[:10] for s in run["scenarios"].values())
    return list(commits) or [str(run["skippy"]["commit"])[:10]]


def machine_of(run):
    return f"{run['machine']['cpu']}, {run['machine']['cores']} cores"


def provenance(run):
    partial = "" if run["complete"] else " **Partial: the run was interrupted.**"
    return (f"{model_title(run)}: skippy {' and '.join(commits_of(run))}, {run['llama_server']['version']}; "
            f"{machine_of(run)}, {run['started'][:10]}; `{' '.join(run['command'])}`.{partial}")


def provenance_of_all(runs):
    """Several runs in a few words: days, machines, commits, builds."""
    commits = dict.fromkeys(commit for run in runs for commit in commits_of(run))
    machines = dict.fromkeys(machine_of(run) for run in runs)
    builds = dict.fromkeys(str(run["llama_server"]["version"]).removeprefix("version: ") for run in runs)
    days = sorted({run["started"][:10] for run in runs})
    return (f"{' to '.join(dict.fromkeys((days[0], days[-1])))}, {'; '.join(machines)}; skippy {', '.join(commits)}; "
            f"llama-server {', '.join(builds)}")
