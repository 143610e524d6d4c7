// walk drives the agent with AWS' SDK for JavaScript: FAMILY and IMAGE are its arguments.
import assert from "node:assert/strict";
import {
  ClusterNotFoundException, CreateServiceCommand, DeleteServiceCommand, DescribeServicesCommand, DescribeTasksCommand, ECSClient, ListClustersCommand,
  ListServiceDeploymentsCommand, ListTasksCommand, RegisterTaskDefinitionCommand, RunTaskCommand, StopTaskCommand, UpdateServiceCommand,
  waitUntilServicesInactive, waitUntilServicesStable, waitUntilTasksRunning, waitUntilTasksStopped,
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

// A service is made, updated while its first deployment may still be under way, and removed.
const patience = { client: ecs, maxWaitTime: 240, minDelay: 1, maxDelay: 2 };
await ecs.send(new CreateServiceCommand({ serviceName: family, taskDefinition: family, desiredCount: 2, deploymentConfiguration: { minimumHealthyPercent: 50, maximumPercent: 200 } }));
await waitUntilServicesStable(patience, { services: [family] });
const { service } = await ecs.send(new UpdateServiceCommand({ service: family, desiredCount: 3, forceNewDeployment: true }));
assert.equal(service.deployments.length, 2);
await waitUntilServicesStable(patience, { services: [family] });
const { services: [steady] } = await ecs.send(new DescribeServicesCommand({ services: [family] }));
assert.deepEqual([steady.runningCount, steady.pendingCount, steady.deployments.length, steady.deployments[0].rolloutState], [3, 0, 1, "COMPLETED"]);
const { serviceDeployments } = await ecs.send(new ListServiceDeploymentsCommand({ service: family }));
assert.deepEqual([serviceDeployments.length, serviceDeployments[0].status], [2, "SUCCESSFUL"]);
await ecs.send(new UpdateServiceCommand({ service: family, desiredCount: 0 }));
await ecs.send(new DeleteServiceCommand({ service: family }));
await waitUntilServicesInactive(patience, { services: [family] });

await assert.rejects(ecs.send(new ListTasksCommand({ cluster: "nowhere" })), ClusterNotFoundException);
const other = new ECSClient({ endpoint: process.env.AWS_ENDPOINT_URL, credentials: { accessKeyId: process.env.AWS_ACCESS_KEY_ID, secretAccessKey: "no" } });
await assert.rejects(other.send(new ListClustersCommand({})), { name: "InvalidSignatureException" });
console.log("done");
