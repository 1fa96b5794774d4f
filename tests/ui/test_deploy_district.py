"""What is in dagster_home/deploy/district/: the same instance with several runs at once, in containers and in pods."""

from __future__ import annotations

import shutil
import subprocess
import sys
from datetime import UTC, date, datetime
from pathlib import Path

import dagster as dg
import pytest
import yaml
from dagster._config import Shape, process_config
from dagster._core.code_pointer import ModuleCodePointer
from dagster._core.origin import JobPythonOrigin, RepositoryPythonOrigin
from dagster._grpc.types import ExecuteRunArgs

from pipelines.settings import ROOT
from tests.support.graph import loaded
from tests.support.warehouses.district import new_district
from tests.ui.test_deploy import DEPLOY, read

DISTRICT = DEPLOY / "district"
INSTANCES = {
    "one machine": DISTRICT / "dagster.yaml",
    "docker": DISTRICT / "docker" / "dagster.yaml",
    "kubernetes": DISTRICT / "kubernetes" / "dagster.yaml",
}


@pytest.mark.parametrize("place", INSTANCES)
def test_nothing_differs_from_a_single_schools_instance_but_how_many_runs_there_are_and_where(place: str) -> None:
    single, district = read(DEPLOY / "dagster.yaml"), read(INSTANCES[place])
    runs = district.pop("concurrency")["runs"]
    single.pop("concurrency")
    launcher = district.pop("run_launcher", None)
    storage = single.pop("storage")
    if place != "one machine":
        assert district.pop("storage") == storage
        assert launcher["class"] == {"docker": "DockerRunLauncher", "kubernetes": "K8sRunLauncher"}[place]
    assert district == single
    assert runs["max_concurrent_runs"] > 1
    limited = {limit["key"]: (limit["limit"], limit["value"]) for limit in runs["tag_concurrency_limits"]}
    one_each = (1, {"applyLimitPerUniqueValue": True})
    assert limited == dict.fromkeys(
        ("rollbook/host", "rollbook/institution", "dagster/partition/institution"), one_each
    )


def test_dagster_accepts_the_limits(tmp_path: Path) -> None:
    shutil.copy(INSTANCES["one machine"], tmp_path)
    with dg.DagsterInstance.from_config(str(tmp_path)) as instance:
        queue = instance.get_concurrency_config().run_queue_config
    assert queue is not None
    assert (queue.max_concurrent_runs, len(queue.tag_concurrency_limits)) == (4, 3)


@pytest.mark.parametrize(
    ("place", "module", "name"),
    [("docker", "dagster_docker", "DockerRunLauncher"), ("kubernetes", "dagster_k8s", "K8sRunLauncher")],
)
def test_the_launcher_accepts_its_settings(place: str, module: str, name: str) -> None:
    launchers = pytest.importorskip(module, reason=f"{module} is not installed: pip install '.[launchers]'")
    checked = process_config(
        Shape(getattr(launchers, name).config_type()),  # type: ignore[no-untyped-call]
        read(INSTANCES[place])["run_launcher"]["config"],
    )
    assert (checked.success, [e.message for e in checked.errors or []]) == (True, [])


def test_a_runs_container_gets_the_volumes_and_variables_that_the_daemons_has_and_no_key() -> None:
    compose = read(DISTRICT / "docker" / "compose.yaml")
    daemon = compose["services"]["rollbook"]
    config = read(INSTANCES["docker"])["run_launcher"]["config"]
    assert config["image"] == daemon["image"]
    assert compose["networks"]["rollbook"]["name"] == config["network"]
    assert set(config["env_vars"]) == set(daemon["environment"])
    assert not [name for name in config["env_vars"] if name.endswith("KEY")]
    names = {volume: (given or {}).get("name", volume) for volume, given in compose["volumes"].items()}
    mounted = {":".join([names.get(v.split(":")[0], v.split(":")[0]), *v.split(":")[1:]]) for v in daemon["volumes"]}
    assert set(config["container_kwargs"]["volumes"]) <= mounted
    assert "ports" not in compose["services"]["postgres"]
    assert daemon["ports"] == ["127.0.0.1:3000:3000"]


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")
def test_what_the_pods_refer_to_is_rendered_or_listed_as_made_by_hand(tmp_path: Path) -> None:
    folder = tmp_path / "kubernetes"
    shutil.copytree(DISTRICT / "kubernetes", folder)
    (folder / "institutions.toml").write_text('[ash]\nbase_url = "https://ash.example"\n')
    rendered = subprocess.run(
        ["kubectl", "kustomize", str(folder)], capture_output=True, text=True, check=True, timeout=60
    )
    objects = [o for o in yaml.safe_load_all(rendered.stdout) if o]
    there = {(o["kind"], o["metadata"]["name"]) for o in objects}
    assert {o["metadata"].get("namespace") for o in objects if o["kind"] != "Namespace"} == {"rollbook"}
    config = read(INSTANCES["kubernetes"])["run_launcher"]["config"]
    (pod,) = [o["spec"]["template"]["spec"] for o in objects if o["kind"] == "Deployment"]
    wanted = {
        ("Namespace", config["job_namespace"]),
        ("ServiceAccount", config["service_account_name"]),
        ("ServiceAccount", pod["serviceAccountName"]),
        ("ConfigMap", config["instance_config_map"]),
        *(("ConfigMap", name) for name in config["env_config_maps"]),
    }
    secrets = {config["postgres_password_secret"]}
    for volume in (*config["volumes"], *pod["volumes"]):
        if "persistentVolumeClaim" in volume:
            wanted.add(("PersistentVolumeClaim", volume["persistentVolumeClaim"]["claimName"]))
        if "configMap" in volume:
            wanted.add(("ConfigMap", volume["configMap"]["name"]))
        if "secret" in volume:
            secrets.add(volume["secret"]["secretName"])
    assert wanted <= there
    described = (DISTRICT / "kubernetes" / "kustomization.yaml").read_text()
    assert [s for s in secrets if f"create secret generic {s}" not in described] == []
    # The daemon starts runs; it fetches nothing, and has no key.
    assert "rollbook-keys" not in yaml.safe_dump(pod)
    assert pod["containers"][0]["image"].split(":")[0] == config["job_image"]
    (settings,) = [
        o["data"] for o in objects if (o["kind"], o["metadata"]["name"]) == ("ConfigMap", "rollbook-settings")
    ]
    assert settings["DAGSTER_HOME"] == config["dagster_home"]
    mounts = {mount["mountPath"] for mount in config["volume_mounts"]}
    assert {settings["ROLLBOOK_WAREHOUSE"], settings["ROLLBOOK_INSTITUTIONS"], settings["HOME"]} <= mounts


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_the_command_of_a_runs_pod_syncs_one_institution_with_nothing_but_what_the_pod_has(tmp_path: Path) -> None:
    """Both launchers run `dagster api execute_run`; here in the pod's environment, with the pod's files elsewhere."""
    home, keys = tmp_path / "dagster", tmp_path / "keys"
    home.mkdir()
    keys.mkdir()
    shutil.copy(INSTANCES["one machine"], home / "dagster.yaml")
    today: date = datetime.now(UTC).date()
    with new_district("ash", "birch") as district:
        of = {name: {"api_key": f'{{ file = "{keys / name}" }}'} for name in district.schools}
        district.write(of)
        (keys / "ash").write_text(district["ash"].key)  # birch's cannot be read, which does not concern ash
        env = {
            "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
            "PYTHONPATH": str(ROOT),
            "DAGSTER_HOME": str(home),
            "HOME": str(tmp_path),
            "ROLLBOOK_WAREHOUSE": str(district.warehouse),
            "ROLLBOOK_INSTITUTIONS": str(district.registry),
        }
        with loaded(env) as module, dg.DagsterInstance.from_config(str(home)) as instance:
            partitions = sys.modules["pipelines.assets"].PARTITIONS
            code = RepositoryPythonOrigin(sys.executable, ModuleCodePointer("pipelines.definitions", "defs"))
            origin = JobPythonOrigin("nightly_sync", code)
            run = instance.create_run_for_job(
                module.defs.resolve_job_def("nightly_sync"),
                tags={**partitions.tags("ash", today), "rollbook/sync": "nightly"},
                job_code_origin=origin,
                status=dg.DagsterRunStatus.STARTING,
            )
            command = ExecuteRunArgs(origin, run.run_id, instance.get_ref()).get_command_args()
            done = subprocess.run(
                command, env=env, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False
            )
            ended = instance.get_run_by_id(run.run_id)
            marked = instance.get_materialized_partitions(dg.AssetKey(["published", "rollbook"]))
        assert ended is not None
        assert ended.status is dg.DagsterRunStatus.SUCCESS, done.stderr[-3000:]
        assert (marked, district.asked()) == ({f"{today}|ash"}, {"ash": 3, "birch": 0})
        assert district["ash"].key not in done.stdout + done.stderr + str(command)
