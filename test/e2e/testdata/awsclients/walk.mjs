// walk drives the agent with AWS' SDK for JavaScript: FAMILY and IMAGE are its arguments.
import assert from "node:assert/strict";
import {
  ClusterNotFoundException, DescribeTasksCommand, ECSClient, ListClustersCommand, ListTasksCommand, RegisterTaskDefinitionCommand,
  RunTaskCommand, StopTaskCommand, waitUntilTasksRunning, waitUntilTasksStopped,
} from "@aws-sdk/client-ecs";

const [family, image] = process.argv.slice(2);
const ecs = new ECSClient({ endpoint: process.env.AWS_ENDPOINT_URL });

const { taskDefinition } = await ecs.send(new RegisterTaskDefinitionCommand({
  family,
  containerDefinitions: [{ name: "app", image, command: ["term", "0", "--", "sleep", "forever"], memory: 64, stopTimeout: 2 }],
}));
assert.equal(taskDefinition.revision, 1);

// The same request with the same token is the same task.
const run = () => ecs.send(new RunTaskCommand({ taskDefinition: family, count: 2, clientToken: "once", startedBy: "js" }));
const arns = (await run()).tasks.map((task) => task.taskArn);
assert.deepEqual((await run()).tasks.map((task) => task.taskArn), arns);
await waitUntilTasksRunning({ client: ecs, maxWaitTime: 240, minDelay: 1, maxDelay: 2 }, { tasks: arns });
assert.equal((await ecs.send(new ListTasksCommand({ startedBy: "js" }))).taskArns.length, 2);

for (const task of arns) await ecs.send(new StopTaskCommand({ task, reason: "enough" }));
await waitUntilTasksStopped({ client: ecs, maxWaitTime: 240, minDelay: 1, maxDelay: 2 }, { tasks: arns });
const { tasks } = await ecs.send(new DescribeTasksCommand({ tasks: arns }));
for (const task of tasks) {
  assert.equal(task.stoppedReason, "enough");
  assert.ok(task.stoppedAt instanceof Date && task.stoppedAt >= task.createdAt);
}

await assert.rejects(ecs.send(new ListTasksCommand({ cluster: "nowhere" })), ClusterNotFoundException);
const other = new ECSClient({ endpoint: process.env.AWS_ENDPOINT_URL, credentials: { accessKeyId: process.env.AWS_ACCESS_KEY_ID, secretAccessKey: "no" } });
await assert.rejects(other.send(new ListClustersCommand({})), { name: "InvalidSignatureException" });
console.log("done");
