package admin

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.yaml.in/yaml/v3"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/kafka"

	"github.com/weirhpc/weir/commands/cli"
)

// The forms in which permissions are printed.
const (
	formatTool    = "kafka-acls"
	formatJSON    = "json"
	formatStrimzi = "strimzi"
)

// grant lists the permissions of one role for its Kafka user.
type grant struct {
	Role      string        `json:"role"`
	Principal string        `json:"principal"`
	Rights    []kafka.Right `json:"rights"`
}

func newTopicsACL() *cobra.Command {
	var conf cli.ConfigFlags
	var names []string
	var principal, format, strimzi string
	c := &cobra.Command{
		Use:   "acl",
		Short: "Print the least permissions that each role needs",
		Long: `Prints the least permissions that each role needs in Kafka. It asks no broker.

The lines of format kafka-acls are for a shell with Kafka's tools in its PATH. They read $BROKERS, and admin.properties
with the settings of an administrator's client. Format strimzi is for Kafka on Kubernetes, json for programs.

Each service is a role, and so is each reader: reader for your own tools, status, archive-totals, replay and audit.
Role topics is for "weir topics create" and "check", and topology for "weir topology measure --agents".`,
		Example: `  weir topics acl --config topics.yaml --role collect
  weir topics acl --config topics.yaml | sh
  weir topics acl --config topics.yaml --role reader --principal User:grafana --format json
  weir topics acl --config topics.yaml --format strimzi --strimzi-cluster main | kubectl apply -f -`,
		Args: cli.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if len(names) == 0 {
				names = kafka.Roles()
			}
			if principal != "" && len(names) != 1 {
				return cli.Usage(fmt.Errorf("--principal %s: name its one --role", principal))
			}
			if strimzi != "" && format != formatStrimzi {
				return cli.Usage(fmt.Errorf("--strimzi-cluster %s: it is for --format %s", strimzi, formatStrimzi))
			}
			cfg, err := conf.Local()
			if err != nil {
				return err
			}
			grants, err := grantsOf(cfg, names, principal)
			if err != nil {
				return err
			}
			switch format {
			case formatTool:
				_, err = io.WriteString(c.OutOrStdout(), toolLines(grants))
				return err
			case formatJSON:
				return cli.PrintJSON(c.OutOrStdout(), grants)
			case formatStrimzi:
				return printStrimzi(c.OutOrStdout(), grants, strimzi)
			}
			return cli.Usage(
				fmt.Errorf("--format %s must be %s, %s or %s", format, formatTool, formatJSON, formatStrimzi),
			)
		},
	}
	conf.Add(c)
	c.Flags().StringArrayVar(&names, "role", nil,
		"print the permissions of this `ROLE`; can be repeated (default: all)")
	c.Flags().StringVar(&principal, "principal", "", "`USER` with the role (default: User:weir-ROLE)")
	c.Flags().StringVar(&format, "format", formatTool, "`FORM` of the output: kafka-acls, json or strimzi")
	c.Flags().StringVar(&strimzi, "strimzi-cluster", "", "`NAME` of Strimzi's Kafka, which its users must have")
	cli.Offer(c, "role", kafka.Roles()...)
	cli.Offer(c, "format", formatTool, formatJSON, formatStrimzi)
	return c
}

func grantsOf(cfg config.Config, names []string, principal string) ([]grant, error) {
	var grants []grant
	for _, name := range names {
		rights, err := kafka.Rights(cfg, name)
		if err != nil {
			return nil, cli.Usage(fmt.Errorf("--role: %w", err))
		}
		user := principal
		if user == "" {
			user = "User:weir-" + name
		} else if !strings.Contains(user, ":") {
			user = "User:" + user
		}
		grants = append(grants, grant{name, user, rights})
	}
	return grants, nil
}

// kind returns the name of a type of resource or pattern for Kafka's tools, in lower case. The text between separates
// its words.
func kind(name, between string) string {
	return strings.ReplaceAll(strings.ToLower(name), "_", between)
}

// toolLines returns commands of kafka-acls.sh. Each starts a Java program, so resources with the same operations share
// one.
func toolLines(grants []grant) string {
	var b strings.Builder
	for _, g := range grants {
		fmt.Fprintf(&b, "# %s\n", g.Role)
		var keys []string // in their order: operations and pattern
		resources := map[string][]string{}
		for _, r := range g.Rights {
			key := ""
			for _, o := range r.Operations {
				key += " --operation " + kafka.OperationName(o)
			}
			key += " --resource-pattern-type " + kind(r.Pattern.String(), "-")
			if !slices.Contains(keys, key) {
				keys = append(keys, key)
			}
			resource := "--" + kind(r.Type.String(), "-")
			if r.Type != kmsg.ACLResourceTypeCluster { // there is one, which the tool knows
				resource += " " + cli.Quoted(r.Name)
			}
			resources[key] = append(resources[key], resource)
		}
		for _, key := range keys {
			fmt.Fprintf(&b, "kafka-acls.sh --bootstrap-server \"$BROKERS\" --command-config admin.properties --add"+
				" --allow-principal %s%s %s\n", cli.Quoted(g.Principal), key, strings.Join(resources[key], " "))
		}
	}
	return b.String()
}

// printStrimzi prints a KafkaUser of Strimzi for each role. An empty cluster leaves the label to the administrator.
func printStrimzi(w io.Writer, grants []grant, cluster string) error {
	e := yaml.NewEncoder(w)
	e.SetIndent(2)
	for _, g := range grants {
		var acls []map[string]any
		for _, r := range g.Rights {
			resource := map[string]any{"type": strimziType(r.Type)}
			if r.Type != kmsg.ACLResourceTypeCluster {
				pattern := "literal"
				if r.Pattern == kmsg.ACLResourcePatternTypePrefixed {
					pattern = "prefix"
				}
				resource["name"], resource["patternType"] = r.Name, pattern
			}
			var operations []string
			for _, o := range r.Operations {
				operations = append(operations, kafka.OperationName(o))
			}
			acls = append(acls, map[string]any{"resource": resource, "operations": operations})
		}
		_, name, _ := strings.Cut(g.Principal, ":")
		about := map[string]any{"name": name}
		if cluster != "" {
			about["labels"] = map[string]any{"strimzi.io/cluster": cluster}
		}
		if err := e.Encode(map[string]any{
			"apiVersion": "kafka.strimzi.io/v1beta2", "kind": "KafkaUser", "metadata": about,
			"spec": map[string]any{
				"authentication": map[string]any{"type": "scram-sha-512"},
				"authorization":  map[string]any{"type": "simple", "acls": acls},
			},
		}); err != nil {
			return fmt.Errorf("printing YAML: %w", err)
		}
	}
	return e.Close()
}

func strimziType(t kmsg.ACLResourceType) string {
	if t == kmsg.ACLResourceTypeTransactionalId {
		return "transactionalId"
	}
	return kind(t.String(), "-")
}
