//go:build e2e && (bed_plain || bed_systemd)

//e2e:bed systemd

package e2e

import (
	"net/http"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"
)

// One request of `aws ecs create-express-gateway-service` makes an application that answers by HTTPS. It is
// updated without a lost request.
func TestExpressServiceAnswersByHTTPS(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	proxy := b.ingressProxy()
	address := loopback(t)
	b.agent("--aws-listen="+address, "--aws-express-domain="+b.family+".test")
	client, ctx := ecsClient(b, address), t.Context()
	made, err := client.CreateExpressGatewayService(ctx, &ecs.CreateExpressGatewayServiceInput{
		ServiceName: &b.family, InfrastructureRoleArn: aws.String("arn:aws:iam::000000000000:role/i"), HealthCheckPath: aws.String("/env/GREETING"),
		PrimaryContainer: b.expressContainer("one"), ScalingTarget: &types.ExpressGatewayScalingTarget{MinTaskCount: aws.Int32(1), MaxTaskCount: aws.Int32(1)},
	})
	if err != nil {
		t.Fatal(err)
	}
	self, url := made.Service.ServiceArn, *made.Service.ActiveConfigurations[0].IngressPaths[0].Endpoint
	if want := "https://" + b.family + "." + b.family + ".test"; url != want {
		t.Fatalf("the address is %s, want %s", url, want)
	}
	if _, err := client.CreateExpressGatewayService(ctx, &ecs.CreateExpressGatewayServiceInput{
		ServiceName: aws.String(strings.ToUpper(b.family)), InfrastructureRoleArn: aws.String("r"), PrimaryContainer: b.expressContainer("other"),
	}); err == nil || !strings.Contains(err.Error(), b.family) || strings.Contains(b.want(0, "service", "ls", "--format=json").out, strings.ToUpper(b.family)) {
		t.Errorf("a second service with the same address: %v", err)
	}
	web := proxy.client(b)
	eventually(t, "an answer", func() bool { text, err := askURL(web, url); return err == nil && text == "one" })
	end := askSteadily(t, web, url)
	if _, err := client.UpdateExpressGatewayService(ctx, &ecs.UpdateExpressGatewayServiceInput{ServiceArn: self, PrimaryContainer: b.expressContainer("two")}); err != nil {
		t.Fatal(err)
	}
	d, err := client.DescribeExpressGatewayService(ctx, &ecs.DescribeExpressGatewayServiceInput{ServiceArn: self})
	if err != nil {
		t.Fatal(err)
	}
	ecsService{b, client}.wait(*d.Service.CurrentDeployment, types.ServiceDeploymentStatusSuccessful)
	if answers := end(); answers["two"] == 0 {
		t.Errorf("answers: %v", answers)
	}
	if r := b.want(0, "service", "ls", "--format=json").out; !strings.Contains(r, url) {
		t.Errorf("service ls does not have the address: %s", r)
	}
	if _, err := client.DeleteExpressGatewayService(ctx, &ecs.DeleteExpressGatewayServiceInput{ServiceArn: self}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "INACTIVE", func() bool {
		d, err := client.DescribeExpressGatewayService(ctx, &ecs.DescribeExpressGatewayServiceInput{ServiceArn: self})
		return err == nil && d.Service.Status.StatusCode == types.ExpressGatewayServiceStatusCodeInactive
	})
	if r, err := web.Get(url); err == nil {
		_ = r.Body.Close()
		if r.StatusCode == http.StatusOK {
			t.Error("the address of a deleted service answers")
		}
	}
}

// expressContainer answers with a greeting. Its image has no shell and no client of HTTP.
func (b *box) expressContainer(greeting string) *types.ExpressGatewayContainer {
	return &types.ExpressGatewayContainer{
		Image: aws.String(b.testbox()), Command: []string{"serve", "8080"}, ContainerPort: aws.Int32(8080), Environment: []types.KeyValuePair{{Name: aws.String("GREETING"), Value: &greeting}},
	}
}
