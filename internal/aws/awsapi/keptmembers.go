package awsapi

import (
	"github.com/podtask/podtask/internal/aws/awsapi/protocol"
)

// The types of members that come back as they were sent. Each has the members of the SDK's type.

// launchTypeMember is the member with its words, in requests for tasks and for services.
const launchTypeMember = "launchType=EC2|FARGATE|EXTERNAL|MANAGED_INSTANCES"

const theHostsNetwork = "there is one host, and its network is the user's"

// placed are the members of RunTask and of services that say where ECS places tasks.
var placed = protocol.Members(
	protocol.Keep[[]strategyItem](theHostsNetwork, strategyMember),
	protocol.Keep[networkIn](theHostsNetwork, "networkConfiguration"),
	protocol.Keep[[]constraintIn](theHostsNetwork, "placementConstraints"),
	protocol.Keep[[]placementIn](theHostsNetwork, "placementStrategy"),
	protocol.Keep[bool](theHostsNetwork, "enableECSManagedTags"),
	protocol.Keep[string](theHostsNetwork, "platformVersion"),
)

// clusterMembers are members of clusters, and providerMembers those that say where tasks go that do not say it.
var (
	clusterMembers = protocol.Members(
		protocol.HonorAndKeep[connectDefaultsIn](connectDefaults),
		protocol.Keep[[]settingIn](onlyAName, "settings"),
		protocol.Keep[clusterConfigurationIn](onlyAName, "configuration"),
	)
	providerMembers = protocol.Members(
		protocol.Keep[[]string](onlyAName, "capacityProviders"),
		protocol.Keep[[]strategyItem](onlyAName, defaultStrategy),
	)
)

type networkIn struct {
	AWSVPC *struct {
		expressNetworkIn

		PublicIP string `json:"assignPublicIp" words:"ENABLED|DISABLED"`
	} `json:"awsvpcConfiguration"`
}

type expressNetworkIn struct {
	Subnets []string `json:"subnets"`
	Groups  []string `json:"securityGroups"`
}

type constraintIn struct {
	Type       string `json:"type" words:"distinctInstance|memberOf"`
	Expression string `json:"expression"`
}

type placementIn struct {
	Type  string `json:"type" words:"random|spread|binpack"`
	Field string `json:"field"`
}

type loadBalancerIn struct {
	Name          string `json:"loadBalancerName"`
	Container     string `json:"containerName"`
	ContainerPort int    `json:"containerPort"`
	Group         string `json:"targetGroupArn"`
	Advanced      *struct {
		Group      string `json:"alternateTargetGroupArn"`
		Production string `json:"productionListenerRule"`
		Test       string `json:"testListenerRule"`
		Role       string `json:"roleArn"`
	} `json:"advancedConfiguration"`
}

type clusterConfigurationIn struct {
	Exec *struct {
		Key string `json:"kmsKeyId"`
		Log *struct {
			Group     string `json:"cloudWatchLogGroupName"`
			Encrypted bool   `json:"cloudWatchEncryptionEnabled"`
			Bucket    string `json:"s3BucketName"`
			BucketKey bool   `json:"s3EncryptionEnabled"`
			Prefix    string `json:"s3KeyPrefix"`
		} `json:"logConfiguration"`
		Logging string `json:"logging" words:"NONE|DEFAULT|OVERRIDE"`
	} `json:"executeCommandConfiguration"`
	Storage *struct {
		Fargate string `json:"fargateEphemeralStorageKmsKeyId"`
		Key     string `json:"kmsKeyId"`
	} `json:"managedStorageConfiguration"`
}

type settingIn struct {
	Name  string `json:"name" words:"containerInsights"`
	Value string `json:"value"`
}

type connectDefaultsIn struct {
	Namespace string `json:"namespace"`
}

// connectLogIn, accessLogIn, connectTimeoutIn, connectTLSIn and testRulesIn have no effect on this host.
type (
	connectLogIn struct {
		Driver  string            `json:"logDriver" words:"json-file|syslog|journald|gelf|fluentd|awslogs|splunk|awsfirelens"`
		Options map[string]string `json:"options"`
		Secrets []struct {
			Name string `json:"name"`
			From string `json:"valueFrom"`
		} `json:"secretOptions"`
	}
	accessLogIn struct {
		Format string `json:"format" words:"TEXT|JSON"`
		Query  string `json:"includeQueryParameters" words:"ENABLED|DISABLED"`
	}
	connectTimeoutIn struct {
		Idle    int `json:"idleTimeoutSeconds"`
		Request int `json:"perRequestTimeoutSeconds"`
	}
	connectTLSIn struct {
		Issuer *struct {
			Authority string `json:"awsPcaAuthorityArn"`
		} `json:"issuerCertificateAuthority"`
		Key  string `json:"kmsKey"`
		Role string `json:"roleArn"`
	}
	testRulesIn struct {
		Header *struct {
			Name  string `json:"name"`
			Value *struct {
				Exact string `json:"exact"`
			} `json:"value"`
		} `json:"header"`
	}
)
