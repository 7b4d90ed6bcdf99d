//! Whether a kernel's block may be changed, from its PTX.

use apex_cuda::image::{ImageKind, identify};
use apex_ptx::container;
use apex_ptx::reshape::reshape;
use apex_ptx::tree::FunctionKind;

/// What a kernel's text proves about its block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockFreedom {
    /// For x, y and z: free to change as long as the side has as many threads in all, or why not.
    pub sides: [Result<(), String>; 3],
    /// The most threads of a block that the text allows, if it says.
    pub most_threads: Option<u32>,
}

/// Looks at one kernel of a PTX text; an error where the text cannot be read or has no such kernel.
pub fn block_freedom(ptx: &str, kernel: &str) -> Result<BlockFreedom, String> {
    let module =
        apex_ptx::parse(ptx).map_err(|error| format!("its PTX cannot be read: {error}"))?;
    let mut kernels = module
        .functions()
        .filter(|function| function.kind == FunctionKind::Entry && function.body.is_some());
    let found = kernels.find(|function| &*function.name == kernel);
    let found = found.ok_or_else(|| format!("its PTX has no kernel {kernel}"))?;
    let proof = reshape(&module, found);
    Ok(BlockFreedom { sides: proof.sides, most_threads: proof.most_threads })
}

/// Looks at one kernel of an image as the driver was given it: PTX, or a fatbin, of whose texts the one for the
/// architecture counts that the running code was compiled from. Another one may be compiled from other lines.
pub fn block_freedom_in(
    image: &[u8],
    architecture: u32,
    kernel: &str,
) -> Result<BlockFreedom, String> {
    match identify(image) {
        Some(found) if found.kind == ImageKind::Ptx => {
            block_freedom(&String::from_utf8_lossy(&image[..found.length]), kernel)
        }
        Some(found) if found.kind == ImageKind::Fatbin => {
            let texts = container::texts(&image[..found.length]);
            let own = texts.iter().filter(|(number, _)| *number == architecture);
            let mut looked = own.map(|(_, text)| block_freedom(text, kernel));
            looked.find(Result::is_ok).unwrap_or_else(|| {
                Err(format!("its image has no PTX for compute_{architecture}, and nothing is proved of machine code"))
            })
        }
        _ => Err("it was loaded as machine code, and nothing is proved of that".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_zoo_is_told_apart() {
        let of = |name: &str| {
            let text = |kernel: &crate::zoo::ZooKernel| block_freedom(kernel.source().ptx, name);
            crate::zoo::kernels().find_map(|kernel| text(kernel).ok()).unwrap().sides[0].clone()
        };
        assert_eq!(of("triad"), Ok(()));
        assert_eq!(of("triad_grid_stride"), Ok(()));
        assert!(of("reduce_tree").unwrap_err().contains("shared memory"));
        assert!(of("reduce_shuffle").is_err());
        assert!(block_freedom("no ptx", "k").is_err());
        assert!(block_freedom(crate::EXAMPLE_PTX, "none").unwrap_err().contains("no kernel"));
    }
}
