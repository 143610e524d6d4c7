package taskdef

import "slices"

// podFields are the names of the fields of a Pod that a user may leave out of a definition. They are here, and not
// beside the reader of Pods, because the configuration checks names of members without reading any definition. A test
// of internal/define/pod holds the list against the members that it knows.
var podFields = []string{
	"action", "activeDeadlineSeconds", "add", "affinity", "allowPrivilegeEscalation", "annotations",
	"appArmorProfile", "args", "automountServiceAccountToken", "awsElasticBlockStore", "azureDisk", "azureFile",
	"binaryData", "bindMountOptions", "capabilities", "cephfs", "cinder", "claimName", "claims",
	"clusterTrustBundle", "command", "configMap", "configMapKeyRef", "configMapRef", "containerName",
	"containerPort", "creationTimestamp", "csi", "data", "defaultMode", "defaultUser",
	"deletionGracePeriodSeconds", "deletionTimestamp", "divisor", "dnsConfig", "dnsPolicy", "downwardAPI",
	"drop", "emptyDir", "enableServiceLinks", "env", "envFrom", "ephemeral", "ephemeralContainers",
	"evictionResponders", "exec", "exitCodes", "failureThreshold", "fc", "fieldPath", "fieldRef", "fileKeyRef",
	"finalizers", "flexVolume", "flocker", "fsGroup", "fsGroupChangePolicy", "gcePersistentDisk",
	"generateName", "generation", "gitRepo", "glusterfs", "grpc", "host", "hostAliases", "hostIP", "hostIPC",
	"hostNetwork", "hostPID", "hostPath", "hostPort", "hostUsers", "hostname", "hostnameOverride", "hostnames",
	"httpGet", "httpHeaders", "imagePullPolicy", "imagePullSecrets", "immutable", "initContainers",
	"initialDelaySeconds", "ip", "iscsi", "items", "key", "labels", "level", "lifecycle", "limits",
	"livenessProbe", "localhostProfile", "managedFields", "medium", "mode", "mountPath", "mountPropagation",
	"nameservers", "namespace", "nfs", "nodeName", "nodeSelector", "operator", "optional", "options", "os",
	"overhead", "ownerReferences", "path", "periodSeconds", "persistentVolumeClaim", "photonPersistentDisk",
	"podCertificate", "port", "ports", "portworxVolume", "postStart", "preStop", "preemptionPolicy", "prefix",
	"priority", "priorityClassName", "privileged", "procMount", "projected", "protocol", "pullPolicy",
	"quobyte", "rbd", "readOnly", "readOnlyRootFilesystem", "readinessGates", "readinessProbe",
	"recursiveReadOnly", "reference", "requests", "resizePolicy", "resource", "resourceClaims",
	"resourceFieldRef", "resourceName", "resourceVersion", "resources", "restartPolicy", "restartPolicyRules",
	"role", "runAsGroup", "runAsNonRoot", "runAsUser", "runtimeClassName", "scaleIO", "schedulerName",
	"schedulingGates", "schedulingGroup", "scheme", "seLinuxChangePolicy", "seLinuxOptions", "searches",
	"seccompProfile", "seconds", "secret", "secretKeyRef", "secretName", "secretRef", "securityContext",
	"selfLink", "service", "serviceAccount", "serviceAccountName", "serviceAccountToken", "setHostnameAsFQDN",
	"shareProcessNamespace", "sizeLimit", "sleep", "sources", "startupProbe", "status", "stdin", "stdinOnce",
	"stopSignal", "storageos", "stringData", "subPath", "subPathExpr", "subdomain", "successThreshold",
	"supplementalGroups", "supplementalGroupsPolicy", "sysctls", "tcpSocket", "terminationGracePeriodSeconds",
	"terminationMessagePath", "terminationMessagePolicy", "timeoutSeconds", "tolerations",
	"topologySpreadConstraints", "tty", "type", "uid", "user", "value", "valueFrom", "values", "volumeDevices",
	"volumeMounts", "volumes", "vsphereVolume", "windowsOptions", "workingDir",
}

// PodFields returns the names of the fields of a Pod that Settings.Without may name, sorted.
func PodFields() []string { return slices.Clone(podFields) }
