"""walk drives the agent with boto3: FAMILY and IMAGE are its arguments."""
import os
import sys

import boto3

family, image = sys.argv[1:]
ecs = boto3.client("ecs", endpoint_url=os.environ["AWS_ENDPOINT_URL"])


def check(got, want):
    if got != want:
        sys.exit(f"got {got!r}, want {want!r}")


definition = ecs.register_task_definition(
    family=family, networkMode="bridge",
    containerDefinitions=[{
        "name": "app", "image": image, "command": ["exit", "3"], "memory": 64,
        "environment": [{"name": "GREETING", "value": "hello"}],
    }],
)["taskDefinition"]
check(definition["revision"], 1)
check(definition["containerDefinitions"][0]["environment"], [{"name": "GREETING", "value": "hello"}])

ran = ecs.run_task(taskDefinition=family, count=3, startedBy="boto3", tags=[{"key": "team", "value": "a"}])
check(ran["failures"], [])
arns = [task["taskArn"] for task in ran["tasks"]]
ecs.get_waiter("tasks_stopped").wait(tasks=arns)
tasks = ecs.describe_tasks(tasks=arns, include=["TAGS"])["tasks"]
check([task["containers"][0]["exitCode"] for task in tasks], [3, 3, 3])
check([task["tags"] for task in tasks], [[{"key": "team", "value": "a"}]] * 3)
check({task["stopCode"] for task in tasks}, {"EssentialContainerExited"})
check(tasks[0]["startedAt"] <= tasks[0]["stoppedAt"], True)

pages = ecs.get_paginator("list_tasks").paginate(family=family, desiredStatus="STOPPED", PaginationConfig={"PageSize": 2})
check(sorted(arn for page in pages for arn in page["taskArns"]), sorted(arns))

try:
    ecs.list_tasks(cluster="nowhere")
    sys.exit("a cluster that does not exist was found")
except ecs.exceptions.ClusterNotFoundException as error:
    check(error.response["Error"]["Message"], "Cluster not found.")
try:
    ecs.create_service(serviceName=family, taskDefinition=family + ":9", desiredCount=1)
    sys.exit("a revision that does not exist was taken")
except ecs.exceptions.ClientException:
    pass
print("done")
