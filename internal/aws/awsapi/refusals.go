package awsapi

import "maps"

// Why operations of ECS are refused.
const (
	noProviders  = "this host is the only one, so there is no capacity to provide"
	noDaemons    = "a host of its own needs no managed daemons: create a service"
	noGateways   = "podtask has no load balancers and no gateways: a service has listeners of its own"
	noTaskSets   = "it has no external deployments and no task sets: a service rolls out its definition by itself"
	noAgentCalls = "this is for agents of ECS, and podtask is the agent"
	noAttributes = "there is one host, so placement has nothing to choose by"
)

// Refusals lists the operations of ECS that podtask does not have, with the reasons, for the
// documentation.
func Refusals() map[string]string { return maps.Clone(refusals) }

// refusals are the operations of ECS that podtask does not have, each with the reason.
var refusals = map[string]string{
	"AssociateGatewayWithCluster": noGateways, "CreateGateway": noGateways, "DeleteGateway": noGateways, "DescribeGateway": noGateways,
	"DescribeGatewayResources": noGateways, "DescribeGatewayRoute": noGateways, "DisassociateGatewayFromCluster": noGateways,
	"ListGatewayClusterAssociations": noGateways, "ListGatewayRoutes": noGateways, "ListGateways": noGateways, "UpdateGateway": noGateways,

	"CreateCapacityProvider": noProviders, "DeleteCapacityProvider": noProviders, "UpdateCapacityProvider": noProviders,

	"CreateDaemon": noDaemons, "DeleteDaemon": noDaemons, "DeleteDaemonTaskDefinition": noDaemons, "DescribeDaemon": noDaemons, "DescribeDaemonDeployments": noDaemons,
	"DescribeDaemonRevisions": noDaemons, "DescribeDaemonTaskDefinition": noDaemons, "ListDaemonDeployments": noDaemons, "ListDaemonTaskDefinitions": noDaemons,
	"ListDaemons": noDaemons, "RegisterDaemonTaskDefinition": noDaemons, "UpdateDaemon": noDaemons,

	"CreateTaskSet": noTaskSets, "DeleteTaskSet": noTaskSets, "DescribeTaskSets": noTaskSets, "UpdateServicePrimaryTaskSet": noTaskSets, "UpdateTaskSet": noTaskSets,

	"DeregisterContainerInstance": noAgentCalls, "RegisterContainerInstance": noAgentCalls, "SubmitAttachmentStateChanges": noAgentCalls,
	"SubmitContainerStateChange": noAgentCalls, "SubmitTaskStateChange": noAgentCalls, "UpdateContainerAgent": noAgentCalls,

	"DeleteAttributes": noAttributes, "ListAttributes": noAttributes, "PutAttributes": noAttributes,
}
