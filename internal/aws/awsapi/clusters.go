package awsapi

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/podtask/podtask/internal/aws/awsapi/protocol"
	"github.com/podtask/podtask/internal/aws/awsapi/resource"
	"github.com/podtask/podtask/internal/engine/facts/arn"
	"github.com/podtask/podtask/internal/state"
	"github.com/podtask/podtask/pkg/lifecycle"
)

// clusters are names under which tasks are found.
type clusters struct {
	records *state.Store
	tags    *resource.TagStore
	tasks   Tasks
	host    Host
	now     func() time.Time
	// services counts the active services of each cluster.
	services func() map[string]int
	// noDefault: the default cluster is there only after it was created.
	noDefault bool

	mu sync.Mutex // for one change
}

// clusterRecord is a cluster as it is stored.
type clusterRecord struct {
	Kind string         `json:"kind"`
	Name string         `json:"name"`
	Tags []resource.Tag `json:"tags,omitempty"`
	// Kept is what the client sent besides.
	Kept protocol.Fields `json:"kept,omitempty"`
	// DeletedAt is zero for an active cluster.
	DeletedAt time.Time `json:"deletedAt,omitzero"`
}

const (
	kindCluster = "cluster"
	onlyAName   = "a cluster is a name here"
	// shownInactive is how long what was deleted is still described: clients wait for it.
	shownInactive = time.Hour
)

func (c *clusters) operations() []protocol.Operation {
	return []protocol.Operation{
		protocol.Define("CreateCluster", protocol.Members(
			protocol.Honor("clusterName", "tags", "tags[].key", "tags[].value"),
			clusterMembers, providerMembers,
		), c.create),
		protocol.Define("DescribeClusters", protocol.Honor("clusters", "include=ATTACHMENTS|CONFIGURATIONS|SETTINGS|STATISTICS|TAGS"), c.describe),
		protocol.Define("ListClusters", protocol.Honor("maxResults", "nextToken"), c.list),
		protocol.Define("DeleteCluster", protocol.Honor("cluster!"), c.delete),
		protocol.Define("UpdateCluster", protocol.Members(
			protocol.Honor("cluster!"), clusterMembers,
		), c.update),
		protocol.Define("UpdateClusterSettings", protocol.Members(protocol.Honor("cluster!"), protocol.Require(protocol.Keep[[]settingIn](onlyAName, "settings"))), c.update),
		protocol.Define("PutClusterCapacityProviders", protocol.Members(
			protocol.Honor("cluster!"), protocol.Require(slices.Clone(providerMembers)),
		), c.putProviders),
	}
}

// always reports whether a cluster is there without being created.
func (c *clusters) always(name string) bool { return name == arn.DefaultCluster && !c.noDefault }

// find returns an active cluster, or one that was deleted within the hour.
func (c *clusters) find(name string) (r clusterRecord, ok bool, err error) {
	data, err := c.records.Get(resource.RecordKey(kindCluster, name))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return clusterRecord{Kind: kindCluster, Name: name}, c.always(name), nil
	case err == nil:
		err = json.Unmarshal(data, &r)
	}
	shown := r.DeletedAt.IsZero() || c.now().Sub(r.DeletedAt) < shownInactive
	if !shown && c.always(name) {
		return clusterRecord{Kind: kindCluster, Name: name}, true, err
	}
	return r, err == nil && shown, err
}

// active returns the name of a cluster that is there; the default one for an empty text.
func (c *clusters) active(text string) (string, error) {
	name, err := clusterName("cluster", text)
	if err != nil {
		return "", err
	}
	r, ok, err := c.find(name)
	if err == nil && (!ok || !r.DeletedAt.IsZero()) {
		err = protocol.Failf(protocol.CodeNoCluster, "Cluster not found.")
	}
	return name, err
}

// names are those of all active clusters.
func (c *clusters) names() ([]string, error) {
	var all []string
	if !c.noDefault {
		all = append(all, arn.DefaultCluster)
	}
	for record, err := range c.records.All(nil) {
		var r clusterRecord
		if err != nil || json.Unmarshal(record.Data, &r) != nil || r.Kind != kindCluster {
			continue // one that cannot be read does not hide the others
		}
		if !c.always(r.Name) && r.DeletedAt.IsZero() {
			all = append(all, r.Name)
		}
	}
	slices.Sort(all)
	return all, nil
}

// change changes what an active cluster keeps, and describes it.
func (c *clusters) change(ctx context.Context, cluster string, f func(kept protocol.Fields) error) (any, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	name, err := c.active(cluster)
	if err != nil {
		return nil, err
	}
	r, _, err := c.find(name)
	if err != nil {
		return nil, err
	}
	if r.Kept == nil {
		r.Kept = make(protocol.Fields)
	}
	if err := f(r.Kept); err != nil {
		return nil, err
	}
	if err := c.put(r); err != nil {
		return nil, err
	}
	tags, err := c.tags.Of(arn.Cluster(name), r.Tags)
	return clusterAnswer{c.document(r, c.contents(ctx), tags)}, err
}

// update replaces the members that are given. Settings are replaced by their names.
func (c *clusters) update(ctx context.Context, in clusterIn, given protocol.Fields) (any, error) {
	return c.change(ctx, in.Cluster, func(kept protocol.Fields) error {
		settings, err := mergeSettings(kept["settings"], given["settings"])
		if err != nil {
			return err
		}
		maps.Copy(kept, given)
		if settings != nil {
			kept["settings"] = settings
		}
		return nil
	})
}

// mergeSettings replaces the settings of a cluster that have a new value.
func mergeSettings(old, given json.RawMessage) (json.RawMessage, error) {
	if given == nil {
		return old, nil
	}
	var settings, changed []protocol.NameValue
	if err := json.Unmarshal(given, &changed); err != nil {
		return nil, protocol.Failf(protocol.CodeSyntax, "settings: %v", err)
	}
	_ = json.Unmarshal(old, &settings) // what cannot be read is replaced
	for _, s := range changed {
		if s.Name == "" {
			return nil, protocol.Invalidf("settings: a name is missing: there is containerInsights")
		}
		if i := slices.IndexFunc(settings, func(o protocol.NameValue) bool { return o.Name == s.Name }); i >= 0 {
			settings[i] = s
		} else {
			settings = append(settings, s)
		}
	}
	return json.Marshal(settings)
}

// putProviders replaces the capacity providers of a cluster and its default strategy.
func (c *clusters) putProviders(ctx context.Context, in clusterIn, given protocol.Fields) (any, error) {
	if err := checkProviders(given["capacityProviders"], given[defaultStrategy]); err != nil {
		return nil, err
	}
	return c.change(ctx, in.Cluster, func(kept protocol.Fields) error {
		maps.Copy(kept, given)
		return nil
	})
}

// withDefaultStrategy adds to the kept members of a task or a service the default strategy of its
// cluster, which counts if the client names neither a launch type nor a strategy.
func (c *clusters) withDefaultStrategy(cluster string, kept protocol.Fields) (protocol.Fields, error) {
	if protocol.Given(kept, "launchType") || protocol.Given(kept, strategyMember) {
		return kept, nil
	}
	r, _, err := c.find(cluster)
	if err != nil || !protocol.Given(r.Kept, defaultStrategy) {
		return kept, err
	}
	kept = maps.Clone(kept)
	kept[strategyMember] = r.Kept[defaultStrategy]
	return kept, nil
}

// connectDefaults is the member of a cluster with the namespace of its services that name none.
const connectDefaults = "serviceConnectDefaults"

// connectNamespace is the namespace of serviceConnectDefaults of a cluster; empty for none.
func (c *clusters) connectNamespace(cluster string) (string, error) {
	r, _, err := c.find(cluster)
	if err != nil || !protocol.Given(r.Kept, connectDefaults) {
		return "", err
	}
	var in connectDefaultsIn
	err = json.Unmarshal(r.Kept[connectDefaults], &in)
	return in.Namespace, err
}

func (c *clusters) put(r clusterRecord) error {
	data, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return c.records.Put(resource.RecordKey(kindCluster, r.Name), data)
}

// clusterDoc is a cluster in answers.
type clusterDoc struct {
	ClusterARN         string               `json:"clusterArn"`
	ClusterName        string               `json:"clusterName"`
	Status             string               `json:"status"`
	Instances          int                  `json:"registeredContainerInstancesCount"`
	RunningTasks       int                  `json:"runningTasksCount"`
	PendingTasks       int                  `json:"pendingTasksCount"`
	ActiveServices     int                  `json:"activeServicesCount"`
	Statistics         []protocol.NameValue `json:"statistics"`
	Tags               []resource.Tag       `json:"tags"`
	Settings           []protocol.NameValue `json:"settings"`
	CapacityProviders  []string             `json:"capacityProviders"`
	CapacityStrategies []struct{}           `json:"defaultCapacityProviderStrategy"`
}

// contents counts what is in each cluster.
type contents struct{ running, pending, services map[string]int }

func (c *clusters) contents(ctx context.Context) contents {
	n := contents{make(map[string]int), make(map[string]int), c.services()}
	for _, s := range c.tasks.States(ctx) {
		switch {
		case statusOf(s) == "RUNNING":
			n.running[clusterOf(s)]++
		case s.Goal == lifecycle.Up:
			n.pending[clusterOf(s)]++
		}
	}
	return n
}

// document describes the cluster.
func (c *clusters) document(r clusterRecord, n contents, tags []resource.Tag) any {
	doc := clusterDoc{
		ClusterARN: arn.Cluster(r.Name), ClusterName: r.Name, Status: "ACTIVE", Instances: 1, ActiveServices: n.services[r.Name],
		Statistics: []protocol.NameValue{}, Tags: tags, Settings: []protocol.NameValue{{Name: "containerInsights", Value: "disabled"}}, CapacityProviders: []string{}, CapacityStrategies: []struct{}{},
	}
	if !r.DeletedAt.IsZero() {
		doc.Status, doc.Instances = "INACTIVE", 0
	}
	doc.RunningTasks, doc.PendingTasks = n.running[r.Name], n.pending[r.Name]
	return protocol.WithMembers(doc, r.Kept)
}

type clusterAnswer struct {
	Cluster any `json:"cluster"`
}

type createClusterIn struct {
	ClusterName string         `json:"clusterName"`
	Tags        []resource.Tag `json:"tags"`
}

func (c *clusters) create(ctx context.Context, in createClusterIn, kept protocol.Fields) (any, error) {
	name, err := clusterName("clusterName", in.ClusterName)
	if err != nil {
		return nil, err
	}
	if err := resource.CheckTags("tags", in.Tags); err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	_, err = c.records.Get(resource.RecordKey(kindCluster, name))
	r, ok, findErr := c.find(name)
	switch {
	case findErr != nil:
		return nil, findErr
	case ok && r.DeletedAt.IsZero() && (err == nil || len(kept) == 0 && len(in.Tags) == 0):
	default:
		r = clusterRecord{Kind: kindCluster, Name: name, Tags: in.Tags, Kept: kept}
		if err := errors.Join(c.tags.Forget(arn.Cluster(name)), c.put(r)); err != nil {
			return nil, err
		}
	}
	tags, err := c.tags.Of(arn.Cluster(name), r.Tags)
	return clusterAnswer{c.document(r, c.contents(ctx), tags)}, err
}

type describeClustersIn struct {
	Clusters []string `json:"clusters"`
	Include  []string `json:"include"`
}

// included leaves out what DescribeClusters shows only if its include has a word for it.
func included(r clusterRecord, include []string) clusterRecord {
	r.Kept = maps.Clone(r.Kept)
	if !slices.Contains(include, "CONFIGURATIONS") {
		delete(r.Kept, "configuration")
	}
	if !slices.Contains(include, "SETTINGS") {
		if r.Kept == nil {
			r.Kept = make(protocol.Fields)
		}
		r.Kept["settings"] = json.RawMessage("[]")
	}
	return r
}

func (c *clusters) describe(ctx context.Context, in describeClustersIn, _ protocol.Fields) (any, error) {
	if len(in.Clusters) > protocol.MaxPage {
		return nil, protocol.Invalidf("clusters: there are %d, more than %d", len(in.Clusters), protocol.MaxPage)
	}
	if len(in.Clusters) == 0 {
		in.Clusters = []string{arn.DefaultCluster}
	}
	answer := struct {
		Clusters []any              `json:"clusters"`
		Failures []protocol.Problem `json:"failures"`
	}{[]any{}, []protocol.Problem{}}
	n := c.contents(ctx)
	for _, text := range in.Clusters {
		name, err := clusterName("clusters", text)
		if err != nil {
			return nil, err
		}
		r, ok, err := c.find(name)
		if err != nil {
			return nil, err
		}
		if !ok {
			answer.Failures = append(answer.Failures, protocol.Problem{ARN: arn.Cluster(name), Reason: protocol.MissingReason})
			continue
		}
		tags := []resource.Tag{}
		if slices.Contains(in.Include, "TAGS") {
			if tags, err = c.tags.Of(arn.Cluster(name), r.Tags); err != nil {
				return nil, err
			}
		}
		answer.Clusters = append(answer.Clusters, c.document(included(r, in.Include), n, tags))
	}
	return answer, nil
}

func (c *clusters) list(_ context.Context, in protocol.Paging, _ protocol.Fields) (any, error) {
	all, err := c.names()
	if err != nil {
		return nil, err
	}
	some, next, err := protocol.Page("ListClusters", in, protocol.MaxPage, all, strings.Compare)
	if err != nil {
		return nil, err
	}
	for i, name := range some {
		some[i] = arn.Cluster(name)
	}
	return struct {
		ARNs []string `json:"clusterArns"`
		Next string   `json:"nextToken,omitempty"`
	}{some, next}, nil
}

type clusterIn struct {
	Cluster string `json:"cluster"`
}

func (c *clusters) delete(ctx context.Context, in clusterIn, _ protocol.Fields) (any, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	name, err := c.active(in.Cluster)
	if err != nil {
		return nil, err
	}
	states := c.tasks.States(ctx)
	if slices.ContainsFunc(states, func(s lifecycle.State) bool { return clusterOf(s) == name && s.Status() != lifecycle.StatusStopped }) {
		return nil, protocol.Failf("ClusterContainsTasksException", "The Cluster cannot be deleted while Tasks are active.")
	}
	if c.services()[name] > 0 {
		return nil, protocol.Failf("ClusterContainsServicesException", "The Cluster cannot be deleted while Services are active.")
	}
	r, _, err := c.find(name)
	if err != nil {
		return nil, err
	}
	r.DeletedAt = c.now().UTC()
	if c.always(name) {
		return nil, protocol.Invalidf("cluster: %s cannot be deleted: it has the tasks that come without a cluster", name)
	}
	if err := c.put(r); err != nil {
		return nil, err
	}
	return clusterAnswer{c.document(r, c.contents(ctx), []resource.Tag{})}, nil
}

// tagged implements tagging for clusters.
func (c *clusters) tagged(text string) (string, []resource.Tag, error) {
	name, err := c.active(text)
	if err != nil {
		return "", nil, err
	}
	r, _, err := c.find(name)
	return arn.Cluster(name), r.Tags, err
}
