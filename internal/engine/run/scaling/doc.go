// Package scaling carries out what pkg/scaling decides: it samples the metrics of services, and changes
// their desired counts.
//
// The commands of the command line and the AWS API write a record for each service that scales; the agent follows the
// records, and samples only while there are some. A change is saved before the service is updated. An agent that is killed
// between the two decides again from new samples.
package scaling
