// Package cloudformation reads templates of CloudFormation with their nested stacks, and cloud assemblies of CDK. It evaluates the functions
// that the chosen resource needs and nothing else; a name that only leads to something on AWS gets a stand-in.
package cloudformation
