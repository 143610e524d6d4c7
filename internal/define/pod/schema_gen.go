// Code generated from k8s.io/api by TestSchemaIsThatOfKubernetes. DO NOT EDIT.

package pod

const schemaText = `
AWSElasticBlockStoreVolumeSource: volumeID string, fsType string, partition int32, readOnly bool
Affinity: nodeAffinity NodeAffinity, podAffinity PodAffinity, podAntiAffinity PodAntiAffinity
AppArmorProfile: type string=Unconfined|RuntimeDefault|Localhost, localhostProfile string
AzureDiskVolumeSource: diskName string, diskURI string, cachingMode string=None|ReadOnly|ReadWrite, fsType string, readOnly bool, kind string=Shared|Dedicated|Managed
AzureFileVolumeSource: secretName string, shareName string, readOnly bool
CSIVolumeSource: driver string, readOnly bool, fsType string, volumeAttributes map string, nodePublishSecretRef LocalObjectReference
Capabilities: add []string, drop []string
CephFSVolumeSource: monitors []string, path string, user string, secretFile string, secretRef LocalObjectReference, readOnly bool
CinderVolumeSource: volumeID string, fsType string, readOnly bool, secretRef LocalObjectReference
ClientIPConfig: timeoutSeconds int32
ClusterTrustBundleProjection: name string, signerName string, labelSelector LabelSelector, optional bool, path string, user int64
ConfigMap: kind string, apiVersion string, metadata ObjectMeta, immutable bool, data map string, binaryData map bytes
ConfigMapEnvSource: name string, optional bool
ConfigMapKeySelector: name string, key string, optional bool
ConfigMapProjection: name string, items []KeyToPath, optional bool
ConfigMapVolumeSource: name string, items []KeyToPath, defaultMode int32, optional bool, defaultUser int64
Container: name string, image string, command []string, args []string, workingDir string, ports []ContainerPort, envFrom []EnvFromSource, env []EnvVar, resources ResourceRequirements, resizePolicy []ContainerResizePolicy, restartPolicy string, restartPolicyRules []ContainerRestartRule, volumeMounts []VolumeMount, volumeDevices []VolumeDevice, livenessProbe Probe, readinessProbe Probe, startupProbe Probe, lifecycle Lifecycle, terminationMessagePath string, terminationMessagePolicy string=File|FallbackToLogsOnError, imagePullPolicy string=Always|Never|IfNotPresent, securityContext SecurityContext, stdin bool, stdinOnce bool, tty bool
ContainerPort: name string, hostPort int32, containerPort int32, protocol string=TCP|UDP|SCTP, hostIP string
ContainerResizePolicy: resourceName string, restartPolicy string
ContainerRestartRule: action string, exitCodes ContainerRestartRuleOnExitCodes
ContainerRestartRuleOnExitCodes: operator string, values []int32
CronJob: kind string, apiVersion string, metadata ObjectMeta, spec CronJobSpec, status any
CronJobSpec: schedule string, timeZone string, startingDeadlineSeconds int64, concurrencyPolicy string=Allow|Forbid|Replace, suspend bool, jobTemplate JobTemplateSpec, successfulJobsHistoryLimit int32, failedJobsHistoryLimit int32
DaemonSet: kind string, apiVersion string, metadata ObjectMeta, spec DaemonSetSpec, status any
DaemonSetSpec: selector LabelSelector, template PodTemplateSpec, updateStrategy DaemonSetUpdateStrategy, minReadySeconds int32, revisionHistoryLimit int32
DaemonSetUpdateStrategy: type string=RollingUpdate|OnDelete, rollingUpdate RollingUpdateDaemonSet
Deployment: kind string, apiVersion string, metadata ObjectMeta, spec DeploymentSpec, status any
DeploymentSpec: replicas int32, selector LabelSelector, template PodTemplateSpec, strategy DeploymentStrategy, minReadySeconds int32, revisionHistoryLimit int32, paused bool, progressDeadlineSeconds int32
DeploymentStrategy: type string=Recreate|RollingUpdate, rollingUpdate RollingUpdateDeployment
DownwardAPIProjection: items []DownwardAPIVolumeFile
DownwardAPIVolumeFile: path string, fieldRef ObjectFieldSelector, resourceFieldRef ResourceFieldSelector, mode int32, user int64
DownwardAPIVolumeSource: items []DownwardAPIVolumeFile, defaultMode int32, defaultUser int64
EmptyDirVolumeSource: medium string, sizeLimit quantity, mode int32
EnvFromSource: prefix string, configMapRef ConfigMapEnvSource, secretRef SecretEnvSource
EnvVar: name string, value string, valueFrom EnvVarSource
EnvVarSource: fieldRef ObjectFieldSelector, resourceFieldRef ResourceFieldSelector, configMapKeyRef ConfigMapKeySelector, secretKeyRef SecretKeySelector, fileKeyRef FileKeySelector
EphemeralContainer: name string, image string, command []string, args []string, workingDir string, ports []ContainerPort, envFrom []EnvFromSource, env []EnvVar, resources ResourceRequirements, resizePolicy []ContainerResizePolicy, restartPolicy string, restartPolicyRules []ContainerRestartRule, volumeMounts []VolumeMount, volumeDevices []VolumeDevice, livenessProbe Probe, readinessProbe Probe, startupProbe Probe, lifecycle Lifecycle, terminationMessagePath string, terminationMessagePolicy string=File|FallbackToLogsOnError, imagePullPolicy string=Always|Never|IfNotPresent, securityContext SecurityContext, stdin bool, stdinOnce bool, tty bool, targetContainerName string
EphemeralVolumeSource: volumeClaimTemplate PersistentVolumeClaimTemplate
EvictionResponder: name string, priority int32
ExecAction: command []string
FCVolumeSource: targetWWNs []string, lun int32, fsType string, readOnly bool, wwids []string
FileKeySelector: volumeName string, path string, key string, optional bool
FlexVolumeSource: driver string, fsType string, secretRef LocalObjectReference, readOnly bool, options map string
FlockerVolumeSource: datasetName string, datasetUUID string
GCEPersistentDiskVolumeSource: pdName string, fsType string, partition int32, readOnly bool
GRPCAction: port int32, service string, mode string=Plaintext|TLS
GitRepoVolumeSource: repository string, revision string, directory string
GlusterfsVolumeSource: endpoints string, path string, readOnly bool
HTTPGetAction: path string, port intOrString, host string, scheme string=HTTP|HTTPS, httpHeaders []HTTPHeader, protocol string=HTTP1|HTTP2
HTTPHeader: name string, value string
HTTPIngressPath: path string, pathType string, backend IngressBackend
HTTPIngressRuleValue: paths []HTTPIngressPath
HostAlias: ip string, hostnames []string
HostPathVolumeSource: path string, type string=DirectoryOrCreate|Directory|FileOrCreate|File|Socket|CharDevice|BlockDevice
ISCSIVolumeSource: targetPortal string, iqn string, lun int32, iscsiInterface string, fsType string, readOnly bool, portals []string, chapAuthDiscovery bool, chapAuthSession bool, secretRef LocalObjectReference, initiatorName string
ImageVolumeSource: reference string, pullPolicy string=Always|Never|IfNotPresent
Ingress: kind string, apiVersion string, metadata ObjectMeta, spec IngressSpec, status any
IngressBackend: service IngressServiceBackend, resource TypedLocalObjectReference
IngressRule: host string, http HTTPIngressRuleValue
IngressServiceBackend: name string, port ServiceBackendPort
IngressSpec: ingressClassName string, defaultBackend IngressBackend, tls []IngressTLS, rules []IngressRule
IngressTLS: hosts []string, secretName string
Job: kind string, apiVersion string, metadata ObjectMeta, spec JobSpec, status any
JobSchedulingConfiguration: schedulingPolicy WorkloadPodGroupSchedulingPolicy, schedulingConstraints WorkloadPodGroupSchedulingConstraints, disruptionMode WorkloadPodGroupDisruptionMode, resourceClaims []WorkloadPodGroupResourceClaim
JobSpec: parallelism int32, completions int32, activeDeadlineSeconds int64, podFailurePolicy PodFailurePolicy, successPolicy SuccessPolicy, backoffLimit int32, backoffLimitPerIndex int32, maxFailedIndexes int32, selector LabelSelector, manualSelector bool, template PodTemplateSpec, ttlSecondsAfterFinished int32, completionMode string=NonIndexed|Indexed, suspend bool, podReplacementPolicy string=TerminatingOrFailed|Failed, managedBy string, scheduling JobSchedulingConfiguration
JobTemplateSpec: metadata ObjectMeta, spec JobSpec
KeyToPath: key string, path string, mode int32, user int64
LabelSelector: matchLabels map string, matchExpressions []LabelSelectorRequirement
LabelSelectorRequirement: key string, operator string, values []string
Lifecycle: postStart LifecycleHandler, preStop LifecycleHandler, stopSignal string
LifecycleHandler: exec ExecAction, httpGet HTTPGetAction, tcpSocket TCPSocketAction, sleep SleepAction
LocalObjectReference: name string
NFSVolumeSource: server string, path string, readOnly bool
NodeAffinity: requiredDuringSchedulingIgnoredDuringExecution NodeSelector, preferredDuringSchedulingIgnoredDuringExecution []PreferredSchedulingTerm
NodeSelector: nodeSelectorTerms []NodeSelectorTerm
NodeSelectorRequirement: key string, operator string=In|NotIn|Exists|DoesNotExist|Gt|Lt, values []string
NodeSelectorTerm: matchExpressions []NodeSelectorRequirement, matchFields []NodeSelectorRequirement
ObjectFieldSelector: apiVersion string, fieldPath string
ObjectMeta: name string, generateName string, namespace string, selfLink string, uid string, resourceVersion string, generation int64, creationTimestamp time, deletionTimestamp time, deletionGracePeriodSeconds int64, labels map string, annotations map string, ownerReferences []OwnerReference, finalizers []string, managedFields []any
OwnerReference: apiVersion string, kind string, name string, uid string, controller bool, blockOwnerDeletion bool
PersistentVolumeClaim: kind string, apiVersion string, metadata ObjectMeta, spec PersistentVolumeClaimSpec, status any
PersistentVolumeClaimSpec: accessModes []string=ReadWriteOnce|ReadOnlyMany|ReadWriteMany|ReadWriteOncePod, selector LabelSelector, resources VolumeResourceRequirements, volumeName string, storageClassName string, volumeMode string=Block|Filesystem, dataSource TypedLocalObjectReference, dataSourceRef TypedObjectReference, volumeAttributesClassName string
PersistentVolumeClaimTemplate: metadata ObjectMeta, spec PersistentVolumeClaimSpec
PersistentVolumeClaimVolumeSource: claimName string, readOnly bool
PhotonPersistentDiskVolumeSource: pdID string, fsType string
Pod: kind string, apiVersion string, metadata ObjectMeta, spec PodSpec, status any
PodAffinity: requiredDuringSchedulingIgnoredDuringExecution []PodAffinityTerm, preferredDuringSchedulingIgnoredDuringExecution []WeightedPodAffinityTerm
PodAffinityTerm: labelSelector LabelSelector, namespaces []string, topologyKey string, namespaceSelector LabelSelector, matchLabelKeys []string, mismatchLabelKeys []string
PodAntiAffinity: requiredDuringSchedulingIgnoredDuringExecution []PodAffinityTerm, preferredDuringSchedulingIgnoredDuringExecution []WeightedPodAffinityTerm
PodCertificateProjection: signerName string, keyType string, maxExpirationSeconds int32, credentialBundlePath string, keyPath string, certificateChainPath string, userAnnotations map string, user int64
PodDNSConfig: nameservers []string, searches []string, options []PodDNSConfigOption
PodDNSConfigOption: name string, value string
PodFailurePolicy: rules []PodFailurePolicyRule
PodFailurePolicyOnExitCodesRequirement: containerName string, operator string=In|NotIn, values []int32
PodFailurePolicyOnPodConditionsPattern: type string, status string
PodFailurePolicyRule: action string=FailJob|FailIndex|Ignore|Count, onExitCodes PodFailurePolicyOnExitCodesRequirement, onPodConditions []PodFailurePolicyOnPodConditionsPattern
PodOS: name string
PodReadinessGate: conditionType string
PodResourceClaim: name string, resourceClaimName string, resourceClaimTemplateName string
PodSchedulingGate: name string
PodSchedulingGroup: podGroupName string
PodSecurityContext: seLinuxOptions SELinuxOptions, windowsOptions WindowsSecurityContextOptions, runAsUser int64, runAsGroup int64, runAsNonRoot bool, supplementalGroups []int64, supplementalGroupsPolicy string=Merge|Strict, fsGroup int64, sysctls []Sysctl, fsGroupChangePolicy string=OnRootMismatch|Always, seccompProfile SeccompProfile, appArmorProfile AppArmorProfile, seLinuxChangePolicy string
PodSpec: volumes []Volume, initContainers []Container, containers []Container, ephemeralContainers []EphemeralContainer, restartPolicy string=Always|OnFailure|Never, terminationGracePeriodSeconds int64, activeDeadlineSeconds int64, dnsPolicy string=ClusterFirstWithHostNet|ClusterFirst|Default|None, nodeSelector map string, serviceAccountName string, serviceAccount string, automountServiceAccountToken bool, nodeName string, hostNetwork bool, hostPID bool, hostIPC bool, shareProcessNamespace bool, securityContext PodSecurityContext, imagePullSecrets []LocalObjectReference, hostname string, subdomain string, affinity Affinity, schedulerName string, tolerations []Toleration, hostAliases []HostAlias, priorityClassName string, priority int32, dnsConfig PodDNSConfig, readinessGates []PodReadinessGate, runtimeClassName string, enableServiceLinks bool, preemptionPolicy string=PreemptLowerPriority|Never, overhead map quantity, topologySpreadConstraints []TopologySpreadConstraint, setHostnameAsFQDN bool, os PodOS, hostUsers bool, schedulingGates []PodSchedulingGate, resourceClaims []PodResourceClaim, resources ResourceRequirements, hostnameOverride string, schedulingGroup PodSchedulingGroup, evictionResponders []EvictionResponder
PodTemplate: kind string, apiVersion string, metadata ObjectMeta, template PodTemplateSpec
PodTemplateSpec: metadata ObjectMeta, spec PodSpec
PortworxVolumeSource: volumeID string, fsType string, readOnly bool
PreferredSchedulingTerm: weight int32, preference NodeSelectorTerm
Probe: exec ExecAction, httpGet HTTPGetAction, tcpSocket TCPSocketAction, grpc GRPCAction, initialDelaySeconds int32, timeoutSeconds int32, periodSeconds int32, successThreshold int32, failureThreshold int32, terminationGracePeriodSeconds int64
ProjectedVolumeSource: sources []VolumeProjection, defaultMode int32, defaultUser int64
QuobyteVolumeSource: registry string, volume string, readOnly bool, user string, group string, tenant string
RBDVolumeSource: monitors []string, image string, fsType string, pool string, user string, keyring string, secretRef LocalObjectReference, readOnly bool
ReplicaSet: kind string, apiVersion string, metadata ObjectMeta, spec ReplicaSetSpec, status any
ReplicaSetSpec: replicas int32, minReadySeconds int32, selector LabelSelector, template PodTemplateSpec
ReplicationController: kind string, apiVersion string, metadata ObjectMeta, spec ReplicationControllerSpec, status any
ReplicationControllerSpec: replicas int32, minReadySeconds int32, selector map string, template PodTemplateSpec
ResourceClaim: name string, request string
ResourceFieldSelector: containerName string, resource string, divisor quantity
ResourceRequirements: limits map quantity, requests map quantity, claims []ResourceClaim
RollingUpdateDaemonSet: maxUnavailable intOrString, maxSurge intOrString
RollingUpdateDeployment: maxUnavailable intOrString, maxSurge intOrString
RollingUpdateStatefulSetStrategy: partition int32, maxUnavailable intOrString
SELinuxOptions: user string, role string, type string, level string
ScaleIOVolumeSource: gateway string, system string, secretRef LocalObjectReference, sslEnabled bool, protectionDomain string, storagePool string, storageMode string, volumeName string, fsType string, readOnly bool
SeccompProfile: type string=Unconfined|RuntimeDefault|Localhost, localhostProfile string
Secret: kind string, apiVersion string, metadata ObjectMeta, immutable bool, data map bytes, stringData map string, type string
SecretEnvSource: name string, optional bool
SecretKeySelector: name string, key string, optional bool
SecretProjection: name string, items []KeyToPath, optional bool
SecretVolumeSource: secretName string, items []KeyToPath, defaultMode int32, optional bool, defaultUser int64
SecurityContext: capabilities Capabilities, privileged bool, seLinuxOptions SELinuxOptions, windowsOptions WindowsSecurityContextOptions, runAsUser int64, runAsGroup int64, runAsNonRoot bool, readOnlyRootFilesystem bool, allowPrivilegeEscalation bool, procMount string=Default|Unmasked, seccompProfile SeccompProfile, appArmorProfile AppArmorProfile
Service: kind string, apiVersion string, metadata ObjectMeta, spec ServiceSpec, status any
ServiceAccountTokenProjection: audience string, expirationSeconds int64, path string, user int64
ServiceBackendPort: name string, number int32
ServicePort: name string, protocol string=TCP|UDP|SCTP, appProtocol string, port int32, targetPort intOrString, nodePort int32
ServiceSpec: ports []ServicePort, selector map string, clusterIP string, clusterIPs []string, type string=ClusterIP|NodePort|LoadBalancer|ExternalName, externalIPs []string, sessionAffinity string=ClientIP|None, loadBalancerIP string, loadBalancerSourceRanges []string, externalName string, externalTrafficPolicy string=Cluster|Local, healthCheckNodePort int32, publishNotReadyAddresses bool, sessionAffinityConfig SessionAffinityConfig, ipFamilies []string=IPv4|IPv6, ipFamilyPolicy string=SingleStack|PreferDualStack|RequireDualStack, allocateLoadBalancerNodePorts bool, loadBalancerClass string, internalTrafficPolicy string=Cluster|Local, trafficDistribution string
SessionAffinityConfig: clientIP ClientIPConfig
SleepAction: seconds int64
StatefulSet: kind string, apiVersion string, metadata ObjectMeta, spec StatefulSetSpec, status any
StatefulSetOrdinals: start int32
StatefulSetPersistentVolumeClaimRetentionPolicy: whenDeleted string, whenScaled string
StatefulSetSpec: replicas int32, selector LabelSelector, template PodTemplateSpec, volumeClaimTemplates []PersistentVolumeClaim, serviceName string, podManagementPolicy string=OrderedReady|Parallel, updateStrategy StatefulSetUpdateStrategy, revisionHistoryLimit int32, minReadySeconds int32, persistentVolumeClaimRetentionPolicy StatefulSetPersistentVolumeClaimRetentionPolicy, ordinals StatefulSetOrdinals
StatefulSetUpdateStrategy: type string=RollingUpdate|OnDelete|Recreate, rollingUpdate RollingUpdateStatefulSetStrategy
StorageOSVolumeSource: volumeName string, volumeNamespace string, fsType string, readOnly bool, secretRef LocalObjectReference
SuccessPolicy: rules []SuccessPolicyRule
SuccessPolicyRule: succeededIndexes string, succeededCount int32
Sysctl: name string, value string
TCPSocketAction: port intOrString, host string
Toleration: key string, operator string=Exists|Equal|Lt|Gt, value string, effect string=NoSchedule|PreferNoSchedule|NoExecute, tolerationSeconds int64
TopologyConstraint: key string
TopologySpreadConstraint: maxSkew int32, topologyKey string, whenUnsatisfiable string=DoNotSchedule|ScheduleAnyway, labelSelector LabelSelector, minDomains int32, nodeAffinityPolicy string=Ignore|Honor, nodeTaintsPolicy string=Ignore|Honor, matchLabelKeys []string
TypedLocalObjectReference: apiGroup string, kind string, name string
TypedObjectReference: apiGroup string, kind string, name string, namespace string
Volume: name string, hostPath HostPathVolumeSource, emptyDir EmptyDirVolumeSource, gcePersistentDisk GCEPersistentDiskVolumeSource, awsElasticBlockStore AWSElasticBlockStoreVolumeSource, gitRepo GitRepoVolumeSource, secret SecretVolumeSource, nfs NFSVolumeSource, iscsi ISCSIVolumeSource, glusterfs GlusterfsVolumeSource, persistentVolumeClaim PersistentVolumeClaimVolumeSource, rbd RBDVolumeSource, flexVolume FlexVolumeSource, cinder CinderVolumeSource, cephfs CephFSVolumeSource, flocker FlockerVolumeSource, downwardAPI DownwardAPIVolumeSource, fc FCVolumeSource, azureFile AzureFileVolumeSource, configMap ConfigMapVolumeSource, vsphereVolume VsphereVirtualDiskVolumeSource, quobyte QuobyteVolumeSource, azureDisk AzureDiskVolumeSource, photonPersistentDisk PhotonPersistentDiskVolumeSource, projected ProjectedVolumeSource, portworxVolume PortworxVolumeSource, scaleIO ScaleIOVolumeSource, storageos StorageOSVolumeSource, csi CSIVolumeSource, ephemeral EphemeralVolumeSource, image ImageVolumeSource
VolumeDevice: name string, devicePath string
VolumeMount: name string, readOnly bool, recursiveReadOnly string, mountPath string, subPath string, mountPropagation string=None|HostToContainer|Bidirectional, subPathExpr string, bindMountOptions []string
VolumeProjection: secret SecretProjection, downwardAPI DownwardAPIProjection, configMap ConfigMapProjection, serviceAccountToken ServiceAccountTokenProjection, clusterTrustBundle ClusterTrustBundleProjection, podCertificate PodCertificateProjection
VolumeResourceRequirements: limits map quantity, requests map quantity
VsphereVirtualDiskVolumeSource: volumePath string, fsType string, storagePolicyName string, storagePolicyID string
WeightedPodAffinityTerm: weight int32, podAffinityTerm PodAffinityTerm
WindowsSecurityContextOptions: gmsaCredentialSpecName string, gmsaCredentialSpec string, runAsUserName string, hostProcess bool
WorkloadPodGroupAllDisruptionMode: 
WorkloadPodGroupBasicSchedulingPolicy: 
WorkloadPodGroupDisruptionMode: single WorkloadPodGroupSingleDisruptionMode, all WorkloadPodGroupAllDisruptionMode
WorkloadPodGroupGangSchedulingPolicy: minCount int32
WorkloadPodGroupResourceClaim: name string, resourceClaimName string, resourceClaimTemplateName string
WorkloadPodGroupSchedulingConstraints: topology []TopologyConstraint
WorkloadPodGroupSchedulingPolicy: basic WorkloadPodGroupBasicSchedulingPolicy, gang WorkloadPodGroupGangSchedulingPolicy
WorkloadPodGroupSingleDisruptionMode: 
`
