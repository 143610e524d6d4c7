// Package foreign reads the files in which teams keep what runs on ECS: lists of containers and plans of
// Terraform, templates of CloudFormation with their nested stacks, cloud assemblies of CDK, configurations of
// ecspresso, manifests of Copilot, several manifests of Kubernetes, and what the AWS command line prints.
//
// Read chooses one workload of the file: a service, a scheduled task or a task definition. It returns the task
// definition, the command lines that make a service or a schedule of it, and what neither says, each with its place.
// What it cannot know, such as the value of a parameter, is a problem that names the place and the flag that
// gives the value. All problems are reported at once.
//
// The files are hostile: their size and depth, the number of files that they name, and what functions make of
// them are bounded, and files that they name stay below the directory of the first one.
//
// # Decisions
//
//   - Files of other tools become documents, not tasks. internal/define/foreign finds the workloads of a file,
//     evaluates what the chosen one needs and nothing else, and returns a task definition whose values remember
//     their places. It is checked like any other, and its problems are reported at the places in the file. What has
//     no value is asked for, all at once; a name that only leads to something on AWS gets a stand-in, because
//     references answer names. A live service is read by the user's aws command, so podtask has no client of ECS and
//     no credentials.
package foreign
