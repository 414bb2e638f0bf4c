//! Strongly connected components and floors of a dependency graph.

use std::collections::{BTreeMap, BTreeSet};

use petgraph::algo::{condensation, greedy_feedback_arc_set, tarjan_scc, toposort};
use petgraph::graph::DiGraph;
use petgraph::graphmap::DiGraphMap;
use petgraph::visit::EdgeRef as _;

/// Returns the strongly connected components with more than one member, each sorted.
pub(crate) fn cycles<'a>(edges: impl Iterator<Item = (&'a str, &'a str)>) -> Vec<Vec<&'a str>> {
    let graph = DiGraphMap::<&str, ()>::from_edges(edges);
    let mut cycles: Vec<Vec<&str>> = tarjan_scc(&graph).into_iter().filter(|members| members.len() > 1).collect();
    cycles.iter_mut().for_each(|members| members.sort_unstable());
    cycles.sort();
    cycles
}

/// Returns edges whose removal leaves no cycle. The set is small, but not necessarily minimal.
pub(crate) fn feedback<'a>(edges: impl Iterator<Item = (&'a str, &'a str)>) -> Vec<(&'a str, &'a str)> {
    let mut graph = DiGraph::<&str, ()>::new();
    let mut indices = BTreeMap::new();
    for (from, to) in edges {
        let [from, to] = [from, to].map(|name| *indices.entry(name).or_insert_with(|| graph.add_node(name)));
        graph.update_edge(from, to, ());
    }
    let mut arrows: Vec<_> =
        greedy_feedback_arc_set(&graph).map(|edge| (graph[edge.source()], graph[edge.target()])).collect();
    arrows.sort_unstable();
    arrows
}

/// Returns the floor of each node: 1 if the node uses no other node, else one more than the highest floor that it uses.
/// All members of a cycle have the same floor.
pub(crate) fn floors<'a>(
    edges: impl Iterator<Item = (&'a str, &'a str)>,
    nodes: impl Iterator<Item = &'a str>,
) -> BTreeMap<&'a str, usize> {
    let names: BTreeSet<&str> = nodes.collect();
    let mut graph = DiGraph::<&str, ()>::new();
    let indices: BTreeMap<&str, _> = names.into_iter().map(|name| (name, graph.add_node(name))).collect();
    for (from, to) in edges {
        if let (Some(from), Some(to)) = (indices.get(from), indices.get(to)) {
            graph.update_edge(*from, *to, ());
        }
    }
    let components = condensation(graph, true);
    let mut floors = BTreeMap::new();
    let mut of_component = BTreeMap::new();
    // Without cycles a topological order exists. Used nodes come last in it.
    for index in toposort(&components, None).unwrap_or_default().into_iter().rev() {
        let below = components.neighbors(index).filter_map(|used| of_component.get(&used)).max().copied().unwrap_or(0);
        let floor: usize = below + 1;
        of_component.insert(index, floor);
        floors.extend(components[index].iter().map(|name| (*name, floor)));
    }
    floors
}

#[cfg(test)]
mod tests {
    use super::{cycles, feedback, floors};

    const EDGES: [(&str, &str); 4] = [("top", "a"), ("a", "b"), ("b", "a"), ("b", "base")];

    #[test]
    fn a_cycle_is_found_and_a_chain_is_none() {
        assert_eq!(cycles(EDGES.into_iter()), [["a", "b"]]);
        let removed = feedback(EDGES.into_iter());
        let [arrow] = removed.as_slice() else { panic!("{removed:?}") };
        assert!([("a", "b"), ("b", "a")].contains(arrow), "{arrow:?}");
    }

    #[test]
    fn members_of_a_cycle_share_a_floor_above_what_they_use() {
        let floors = floors(EDGES.into_iter(), ["top", "a", "b", "base", "alone"].into_iter());
        assert_eq!(floors.into_iter().collect::<Vec<_>>(), [("a", 2), ("alone", 1), ("b", 2), ("base", 1), ("top", 3)]);
    }
}
